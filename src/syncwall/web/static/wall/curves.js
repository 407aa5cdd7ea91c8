// Scaling curves of several runs with their walls, and the ledger along the axis.
import { colour, drawn, isWait, ordered, resolved } from "../causes.js";
import { chart, decades, TOLD, upright } from "../chart.js";
import { h, swatch } from "../dom.js";
import { counted, duration, figures, gigabytes, many, percent } from "../format.js";
import { COLOURS } from "./comparisons.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const WALL = 0.8;

/** What can stand on the vertical axis: `axis(values)` of all that is drawn. */
export const MEASURES = {
  efficiency: {
    label: "Efficiency",
    axis: () => ({ tickformat: ".0%", rangemode: "tozero", title: "efficiency over the fewest GPUs" }),
  },
  tokens_per_s: { label: "Tokens/s", axis: (values) => decades("tokens/s of all GPUs", values, many) },
  tokens_per_s_per_gpu: { label: "Tokens/s/GPU", axis: () => ({ rangemode: "tozero", title: "tokens/s/GPU" }) },
  step_s: { label: "Step", axis: (values) => decades("step", values, duration) },
};

/** Draw all curves; `names[i]` says what `runs[i]` is, runs with problems have no curve. */
export function curves(element, runs, names, measure) {
  const shown = runs.map((run, index) => ({ run, index, name: names[index] })).filter(({ run }) => run.gpus);
  const traces = [
    ...shown.slice(0, 1).flatMap(({ run }) => band(run, measure)),
    ...shown.flatMap(({ run, index, name }) => [line(run, index, name, measure), marks(run, index, measure)]),
    ...shown.slice(0, 1).flatMap(({ run }) => here(run, measure)),
  ];
  const walls = shown.map(({ run, index }) => ({ index, wall: wallOf(run) })).filter(({ wall }) => wall);
  return chart(element, traces, {
    xaxis: axis(shown.map(({ run }) => run)),
    yaxis: MEASURES[measure].axis(shown.flatMap(({ run }) => run[measure])),
    margin: { l: 64, r: 16, t: 12 + 16 * walls.length, b: 48 },
    shapes: [
      ...walls.map(({ index, wall }) => {
        const dash = index ? DASHES[index] : "dot";
        return upright(wall.holds_to_gpus, { color: resolved(COLOURS[index]), dash }, "below");
      }),
      ...(measure === "efficiency" ? shown[0].run.walls.map(({ level }) => levelLine(level)) : []),
    ],
    annotations: walls.map(({ index, wall }, place) =>
      flag(
        { ...wall, range: runs[index].wall_ranges.find(({ level }) => level === WALL) },
        resolved(COLOURS[index]),
        place,
        shown.map(({ run }) => run),
      ),
    ),
  });
}

/** Where 80% of all such curves lie: an edge that is not seen, and the area under the other. */
function band(run, measure) {
  const factors = measure === "efficiency" ? run.efficiency_factor : run.step_factor;
  const edge = (power) => ({
    x: run.gpus,
    y: run[measure].map((value, i) => value * factors[i] ** power),
    mode: "lines",
    line: { width: 0 },
    hoverinfo: "skip",
    name: "80% interval",
  });
  return [
    edge(-1),
    { ...edge(1), fill: "tonexty", fillcolor: resolved(COLOURS[0]).replace("rgb(", "rgba(").replace(")", ", 0.17)") },
  ];
}

/** Where the run in the form stands. */
function here(run, measure) {
  const place = nearest(run);
  const ink = resolved("--ink");
  return [
    {
      x: [run.gpus[place]],
      y: [run[measure][place]],
      mode: "markers+text",
      name: "you are here",
      marker: { symbol: "star", size: 14, color: ink },
      textposition: "bottom center",
      text: [run.gpus[place] === run.stated_gpus ? `you are here: ${counted(run.stated_gpus)}` : "nearest to you"],
      textfont: { color: ink, size: 12 },
      cliponaxis: false,
      hovertext: [at(run, place, "this run")],
      hovertemplate: "%{hovertext}<extra></extra>",
    },
  ];
}

const nearest = ({ gpus, stated_gpus }) => {
  const far = gpus.map((count) => Math.abs(Math.log(count / stated_gpus)));
  return far.indexOf(Math.min(...far));
};

/** The wall at 80%, if there is one. */
const wallOf = (run) =>
  run.walls.find(
    ({ level, falls_at_gpus, holds_to_gpus }) => level === WALL && falls_at_gpus !== null && holds_to_gpus !== null,
  ) ?? null;

function line(run, index, name, measure) {
  const mine = resolved(COLOURS[index]);
  return {
    x: run.gpus,
    y: run[measure],
    name,
    mode: run.gpus.length > 20 ? "lines" : "lines+markers",
    line: { color: mine, width: index ? 2 : 3, dash: DASHES[index] },
    marker: { color: mine, size: 5 },
    text: run.gpus.map((_, i) => at(run, i, name)),
    ...TOLD,
  };
}

function at(run, i, name) {
  return [
    `${counted(run.gpus[i])} GPUs (${name})`,
    `efficiency ${percent(run.efficiency[i])}`,
    `${many(run.tokens_per_s[i])} tokens/s`,
    `${figures(run.tokens_per_s_per_gpu[i])} tokens/s/GPU`,
    `step ${duration(run.step_s[i])}`,
    `memory ${gigabytes(run.memory_bytes[i])}`,
  ].join("<br>");
}

function marks(run, index, measure) {
  const found = run.walls.filter(
    ({ holds_to_gpus, falls_at_gpus }) => holds_to_gpus !== null && falls_at_gpus !== null,
  );
  const mine = resolved(COLOURS[index]);
  return {
    x: found.map(({ holds_to_gpus }) => holds_to_gpus),
    y: found.map(({ holds_to_gpus }) => run[measure][run.gpus.indexOf(holds_to_gpus)]),
    mode: "markers",
    name: "",
    marker: {
      symbol: found.map(({ level }) => (level === WALL ? "diamond" : "circle-open")),
      size: found.map(({ level }) => (level === WALL ? 13 : 10)),
      color: mine,
      line: { color: mine, width: 2 },
    },
    text: found.map(
      (wall) =>
        `holds ${percent(wall.level, 0)} up to ${counted(wall.holds_to_gpus)} GPUs<br>${counted(wall.falls_at_gpus)} fall under it`,
    ),
    ...TOLD,
  };
}

function levelLine(level) {
  return {
    type: "line",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: level,
    y1: level,
    line: { color: resolved("--quiet"), width: 1, dash: "dot" },
    layer: "below",
    opacity: 0.6,
  };
}

/** GPUs between the ends of the band. */
export const rangeText = ({ least_gpus, most_gpus, is_open }) =>
  least_gpus === most_gpus && !is_open
    ? "at both ends of the band"
    : `80% interval ${least_gpus === null ? "none" : counted(least_gpus)} to ${most_gpus === null ? "none" : counted(most_gpus)}${is_open ? "+" : ""}`;

/** A word above a wall, beside it where the chart ends. */
function flag(wall, color, place, runs) {
  const [low, high] = ends(runs),
    share = Math.log(wall.holds_to_gpus / low) / Math.log(high / low || 2);
  return {
    x: Math.log10(wall.holds_to_gpus),
    xanchor: share > 0.9 ? "right" : share < 0.1 ? "left" : "center",
    yref: "paper",
    y: 1,
    yanchor: "bottom",
    yshift: 16 * place,
    text: `wall: ${counted(wall.holds_to_gpus)} GPUs${wall.range && innerWidth >= 600 ? ` (${rangeText(wall.range)})` : ""}`,
    showarrow: false,
    font: { size: 12, color },
  };
}

const ends = (runs) => [Math.min(...runs.map(({ gpus }) => gpus[0])), Math.max(...runs.map(({ gpus }) => gpus.at(-1)))];

function axis(runs) {
  const [low, high] = ends(runs);
  const from = Math.floor(Math.log2(low)),
    to = Math.ceil(Math.log2(high));
  const by = Math.max(1, Math.round((to - from) / (innerWidth < 600 ? 4 : 9)));
  const values = Array.from({ length: Math.floor((to - from) / by) + 1 }, (_, i) => 2 ** (from + i * by));
  return {
    type: "log",
    title: "GPUs",
    tickvals: values,
    ticktext: values.map(counted),
    range: [Math.log10(low / 1.15), Math.log10(high * 1.15)],
  };
}

/** The ledger of one run along the axis, as shares of the step. */
export function area(element, run) {
  const traces = ordered(run.ledger_s).map(([cause, seconds]) => ({
    x: run.gpus,
    y: seconds,
    name: cause,
    stackgroup: "all",
    groupnorm: "percent",
    mode: "lines",
    line: { width: 0.5, color: drawn(cause) },
    fillcolor: drawn(cause),
    text: seconds.map((value, i) => `${cause} ${percent(value / run.step_s[i])}, ${duration(value)}`),
    ...TOLD,
    hoveron: "points",
    ...(isWait(cause)
      ? { fillpattern: { shape: "/", size: 5, solidity: 0.12, fgcolor: "rgba(255,255,255,.55)", fillmode: "overlay" } }
      : {}),
  }));
  const wall = wallOf(run);
  return chart(element, traces, {
    xaxis: { ...axis([run]), hoverformat: ",d", unifiedhovertitle: { text: "%{x} GPUs" } },
    yaxis: { ticksuffix: "%", range: [0, 100], title: "of the step" },
    hovermode: "x unified",
    margin: { l: 64, r: 16, t: wall ? 28 : 12, b: 48 },
    shapes: wall ? [upright(wall.holds_to_gpus, { color: resolved("--ink"), dash: "dash" })] : [],
    annotations: wall ? [flag(wall, resolved("--ink"), 0, [run])] : [],
  });
}

/** The causes in that picture with their colours, from the bottom up. */
export function legend(run) {
  return h(
    "ul",
    { class: "legend small" },
    ordered(run.ledger_s).map(([cause]) => h("li", {}, swatch(colour(cause), isWait(cause) ? "wait" : ""), cause)),
  );
}
