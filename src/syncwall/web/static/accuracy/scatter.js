// Predicted against measured times, both on logarithmic axes.
import { resolved } from "../causes.js";
import { ABOVE, chart, decades, TOLD } from "../chart.js";
import { at } from "../dom.js";
import { counted, duration, signedPercent } from "../format.js";

const COLOURS = { structure: "--accent", judge: "--output-layer", calibration: "--other", composed: "--optimizer" };
let listens = false;

/** Draw `runs`; `chosen` is the run that is looked at, `choose(id)` hears clicks; with `asRatio` as predicted over measured. */
export async function scatter(runs, chosen, choose, asRatio) {
  const times = runs.flatMap((run) => [run.measured_s, run.predicted_s]);
  const [low, high] = [Math.min(0.1, ...times) / 1.3, Math.max(1, ...times) * 1.3];
  const axis = (title) => ({ ...decades(title, [low, high], duration), range: [low, high].map(Math.log10) });
  const element = await chart(
    at("scatter"),
    [...clouds(runs, asRatio), ...stars(runs, asRatio), ...ring(chosen, asRatio)],
    {
      xaxis: axis("measured"),
      yaxis: asRatio ? ratios(runs) : axis("predicted"),
      shapes: [1, 1.2, 1 / 1.2].map((factor) => level(factor, low, high, asRatio)),
      height: 460,
      legend: ABOVE,
      margin: { l: 60, r: 12, t: 8, b: 44 },
    },
  );
  if (listens) return;
  listens = true;
  element.on("plotly_click", ({ points: [point] }) => point.customdata && choose(point.customdata));
}

/** A cloud of points for each part, and one for those of it that are in doubt. */
function clouds(runs, asRatio) {
  const parts = Object.entries(COLOURS).reverse();
  const made = parts.flatMap(([part, colour]) => {
    const mine = runs.filter((run) => run.part === part);
    const [sure, unsure] = [mine.filter((run) => !run.doubt), mine.filter((run) => run.doubt)];
    const color = resolved(colour);
    return [
      points(sure, asRatio, { name: part, marker: { size: 5, color, opacity: 0.65 } }),
      points(unsure, asRatio, {
        name: `${part}, in doubt`,
        marker: { size: 6, symbol: "circle-open", color, opacity: 0.7 },
      }),
    ];
  });
  return made.filter(({ x }) => x.length);
}

/** Those that are most like the reader's run. */
function stars(runs, asRatio) {
  const alike = runs.filter((run) => run.isAlike);
  const marker = { size: 11, symbol: "star-open", color: resolved("--ink"), line: { width: 1.3 } };
  return alike.length ? [points(alike, asRatio, { name: "like your run", marker })] : [];
}

/** A ring around the chosen run, and its interval. */
function ring(chosen, asRatio) {
  if (!chosen) return [];
  const color = resolved("--wait");
  const apart = (from, to) => [(to - from) / unit(chosen, asRatio)];
  return [
    points([chosen], asRatio, {
      showlegend: false,
      hoverinfo: "skip",
      hovertemplate: undefined,
      marker: { size: 15, symbol: "circle-open", color, line: { width: 2.5 } },
      error_y: {
        type: "data",
        symmetric: false,
        array: apart(chosen.predicted_s, chosen.high_s),
        arrayminus: apart(chosen.low_s, chosen.predicted_s),
        color,
        thickness: 1.5,
        width: 5,
      },
    }),
  ];
}

/** Where predictions are `factor` times what was measured. */
function level(factor, low, high, asRatio) {
  const line = { color: resolved("--quiet"), ...(factor === 1 ? { width: 1.2 } : { width: 0.8, dash: "dot" }) };
  const [y0, y1] = asRatio ? [factor, factor] : [low * factor, high * factor];
  return { type: "line", x0: low, x1: high, y0, y1, layer: "below", line };
}

function ratios(runs) {
  const found = runs.map((run) => run.ratio);
  return {
    type: "log",
    title: "predicted / measured",
    range: [Math.min(0.5, ...found) / 1.05, Math.max(2, ...found) * 1.05].map(Math.log10),
    tickvals: [0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5],
  };
}

const unit = (run, asRatio) => (asRatio ? run.measured_s : 1);

function points(runs, asRatio, more) {
  return {
    x: runs.map((run) => run.measured_s),
    y: runs.map((run) => run.predicted_s / unit(run, asRatio)),
    customdata: runs.map((run) => run.id),
    type: "scatter",
    mode: "markers",
    text: runs.map(
      (run) =>
        `${run.model} on ${counted(run.gpus)} × ${run.device}<br>measured ${duration(run.measured_s)}, predicted ${duration(run.predicted_s)} (${signedPercent(run.ratio - 1)})<br>${run.source}`,
    ),
    ...TOLD,
    ...more,
  };
}
