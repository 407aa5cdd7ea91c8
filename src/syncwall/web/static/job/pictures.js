// When a job will be done, as a histogram, and what the checkpoint interval costs.
import { resolved } from "../causes.js";
import { chart, TOLD, upright } from "../chart.js";
import { percent, span } from "../format.js";

const DAY_S = 86400;
const NARROW = 480;
const NAMES = ["P10", "P50", "P90"];

/** Shares of the simulated jobs over days or dates, with P10, P50 and P90. */
export function finish(element, answer) {
  const { edges_s, shares, done_by, edge_dates } = answer.finish;
  const dated = Boolean(edge_dates);
  const day = (seconds) => (dated ? moment(answer, seconds) : seconds / unit(edges_s));
  const middles = shares.map((_, i) => (edges_s[i] + edges_s[i + 1]) / 2);
  const width = (edges_s[1] - edges_s[0]) * 0.92;
  const marked = answer.finish_s
    .map((seconds, i) => ({ seconds, name: NAMES[i] }))
    .filter(({ seconds }) => seconds !== null);
  return chart(
    element,
    [
      {
        type: "bar",
        x: middles.map(day),
        y: shares,
        width: dated ? width * 1000 : width / unit(edges_s),
        marker: { color: resolved("--accent") },
        text: shares.map(
          (share, i) =>
            `${said(answer, edges_s[i])} to ${said(answer, edges_s[i + 1])}<br>${percent(share)} of the jobs; ${percent(done_by[i], 0)} are done by then`,
        ),
        ...TOLD,
        textposition: "none",
      },
    ],
    {
      bargap: 0,
      margin: { l: 56, r: 16, t: 46, b: 44 },
      xaxis: dated ? { type: "date" } : { title: `${unit(edges_s) === DAY_S ? "days" : "hours"} from the start` },
      yaxis: { tickformat: ".0%", title: "of the jobs", rangemode: "tozero" },
      shapes: marked.map(({ seconds, name }) => {
        const look = name === "P50" ? { width: 2, dash: "solid" } : { width: 1, dash: "dot" };
        return upright(day(seconds), { color: resolved("--ink"), ...look });
      }),
      annotations: marked.map(({ seconds, name }) => ({
        x: day(seconds),
        yref: "paper",
        y: 1,
        yanchor: "bottom",
        showarrow: false,
        align: "center",
        text: element.clientWidth < NARROW ? name : `${name}<br>${said(answer, seconds)}`,
        font: { color: resolved("--ink"), size: 12 },
      })),
    },
  );
}

const unit = (edges_s) => (edges_s.at(-1) >= 3 * DAY_S ? DAY_S : 3600);

/** The moment `seconds` after the start, between the dates that the server computed. */
function moment({ finish: { edges_s, edge_dates } }, seconds) {
  const first = Date.parse(`${edge_dates[0].slice(0, 19)}Z`) - edges_s[0] * 1000; // as written, wherever the browser is
  return new Date(first + seconds * 1000).toISOString();
}

function said(answer, seconds) {
  return answer.finish.edge_dates ? moment(answer, seconds).slice(0, 10) : span(seconds);
}

/** Share of the time that is work, over the checkpoint interval. */
export function intervals(element, { interval_s, share, chosen, best, work_s }) {
  const same = Math.abs(chosen.interval_s / best.interval_s - 1) < 1e-6;
  const points = same
    ? [{ ...best, name: "chosen, the best" }]
    : [
        { ...best, name: "best" },
        { ...chosen, name: "chosen" },
      ];
  const lost = (one) => `saving, lost work and restarts: ${span(work_s * (1 / one - 1))} of the job`;
  const colours = same ? ["--good"] : ["--good", "--warn"];
  const low = Math.min(...points.map((one) => one.share)),
    top = Math.max(...share);
  return chart(
    element,
    [
      {
        x: interval_s,
        y: share,
        mode: "lines",
        line: { color: resolved("--accent"), width: 2.5 },
        text: interval_s.map(
          (seconds, i) => `every ${span(seconds)}<br>${percent(share[i], 2)} of the time is work<br>${lost(share[i])}`,
        ),
        ...TOLD,
      },
      {
        x: points.map((one) => one.interval_s),
        y: points.map((one) => one.share),
        mode: "markers+text",
        textposition: ["top center", chosen.interval_s > best.interval_s ? "middle right" : "middle left"],
        marker: { size: 11, symbol: ["diamond", "circle"], color: colours.map(resolved) },
        text: points.map((one) => `${one.name}: ${span(one.interval_s)}`),
        textfont: { color: resolved("--ink") },
        cliponaxis: false,
        hovertext: points.map(
          (one) =>
            `${one.name}: every ${span(one.interval_s)}<br>${percent(one.share, 2)} of the time is work<br>${lost(one.share)}`,
        ),
        hovertemplate: "%{hovertext}<extra></extra>",
      },
    ],
    {
      xaxis: {
        type: "log",
        title: "time between checkpoints",
        ...ticks(interval_s, element.clientWidth < NARROW ? 2 : 1),
      },
      yaxis: {
        tickformat: ".1~%",
        title: "of the time is work",
        range: [Math.max(0, Math.min(low, top - 4 * (1 - top)) - 0.15 * (1 - top)), Math.min(1, top + 0.6 * (1 - top))],
      },
    },
  );
}

const TICKS = [
  [1, "1 s"],
  [10, "10 s"],
  [60, "1 min"],
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
  [14400, "4 h"],
  [43200, "12 h"],
  [86400, "1 day"],
  [604800, "7 days"],
  [2592000, "30 days"],
  [31536000, "1 year"],
];

function ticks(interval_s, every) {
  const seen = TICKS.filter(([seconds]) => seconds >= interval_s[0] && seconds <= interval_s.at(-1)).filter(
    (_, i) => i % every === 0,
  );
  return { tickangle: 0, tickvals: seen.map(([seconds]) => seconds), ticktext: seen.map(([, name]) => name) };
}
