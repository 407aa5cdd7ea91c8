// Predicted against measured times, both on logarithmic axes.
import { resolved } from "../causes.js";
import { chart } from "../chart.js";
import { at } from "../dom.js";
import { duration } from "../format.js";

const COLOURS = { structure: "--accent", judge: "--head", calibration: "--other", composed: "--optimizer" };
let listens = false;

/** Draw `runs`; `chosen` is the run that is looked at, `choose(id)` hears clicks; as times, or with `asRatio` as predicted over measured. */
export async function scatter(runs, chosen, choose, asRatio) {
  const points = (some, more) => drawnPoints(some, asRatio, more);
  const traces = [];
  for (const part of Object.keys(COLOURS).reverse()) {
    const mine = runs.filter((run) => run.part === part);
    const sure = mine.filter((run) => !run.doubt),
      unsure = mine.filter((run) => run.doubt);
    if (sure.length)
      traces.push(points(sure, { name: part, marker: { size: 5, color: resolved(COLOURS[part]), opacity: 0.65 } }));
    if (unsure.length)
      traces.push(
        points(unsure, {
          name: `${part}, in doubt`,
          marker: { size: 6, symbol: "circle-open", color: resolved(COLOURS[part]), opacity: 0.7 },
        }),
      );
  }
  if (chosen)
    traces.push({
      ...points([chosen], {
        name: "chosen",
        showlegend: false,
        hoverinfo: "skip",
        hovertemplate: undefined,
        marker: { size: 15, symbol: "circle-open", color: resolved("--wait"), line: { width: 2.5 } },
      }),
      error_y: {
        type: "data",
        symmetric: false,
        array: [(chosen.high_s - chosen.predicted_s) / unit(chosen, asRatio)],
        arrayminus: [(chosen.predicted_s - chosen.low_s) / unit(chosen, asRatio)],
        color: resolved("--wait"),
        thickness: 1.5,
        width: 5,
      },
    });
  const times = runs.flatMap((run) => [run.measured_s, run.predicted_s]);
  const low = Math.min(0.1, ...times) / 1.3,
    high = Math.max(1, ...times) * 1.3;
  const line = (factor, dash) => ({
    type: "line",
    x0: low,
    y0: asRatio ? factor : low * factor,
    x1: high,
    y1: asRatio ? factor : high * factor,
    layer: "below",
    line: { color: resolved("--quiet"), width: dash ? 0.8 : 1.2, dash },
  });
  const axis = (text) => ({
    type: "log",
    title: { text },
    range: [Math.log10(low), Math.log10(high)],
    dtick: 1,
    tickformat: "~g",
    ticksuffix: " s",
  });
  const ratios = {
    type: "log",
    title: { text: "predicted / measured" },
    range: [
      Math.log10(Math.min(0.5, ...runs.map((run) => run.ratio)) / 1.05),
      Math.log10(Math.max(2, ...runs.map((run) => run.ratio)) * 1.05),
    ],
    tickvals: [0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5],
  };
  const element = await chart(at("scatter"), traces, {
    xaxis: axis("measured"),
    yaxis: asRatio ? ratios : axis("predicted"),
    shapes: [line(1), line(1.2, "dot"), line(1 / 1.2, "dot")],
    height: 460,
    hovermode: "closest",
    legend: { orientation: "h", y: 1.01, yanchor: "bottom", font: { size: 12 } },
    margin: { l: 60, r: 12, t: 8, b: 44 },
  });
  if (listens) return;
  listens = true;
  element.on("plotly_click", ({ points: [point] }) => point.customdata && choose(point.customdata));
}

const unit = (run, asRatio) => (asRatio ? run.measured_s : 1);

function drawnPoints(runs, asRatio, more) {
  return {
    x: runs.map((run) => run.measured_s),
    y: runs.map((run) => run.predicted_s / unit(run, asRatio)),
    customdata: runs.map((run) => run.id),
    type: "scatter",
    mode: "markers",
    text: runs.map(
      (run) =>
        `${run.model} on ${run.gpus.toLocaleString("en-US")} × ${run.device}<br>measured ${duration(run.measured_s)}, predicted ${duration(run.predicted_s)} (${run.ratio >= 1 ? "+" : "−"}${(100 * run.error).toFixed(1)} %)<br>${run.source}`,
    ),
    hovertemplate: "%{text}<extra></extra>",
    ...more,
  };
}
