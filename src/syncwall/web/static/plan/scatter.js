// Layouts as points: what they need and what they give.
import { resolved } from "../causes.js";
import { ABOVE, chart, upright } from "../chart.js";
import { at, put } from "../dom.js";
import { counted, gigabytes } from "../format.js";

const GB = 1e9;

/** Draw what a search found; `ticked` are the ranks that are compared. */
export async function scatter(answer, ticked) {
  const { families, front, best, yours, limit_bytes } = answer;
  const sizes = [...new Set(families.map(({ gpus }) => gpus))].sort((a, b) => b - a);
  const cool = ["--other", "--elementwise", "--attention", "--optimizer"].map(resolved);
  const traces = [
    ...sizes.map((size, number) =>
      points(
        families.filter(({ gpus }) => gpus === size),
        {
          name: sizes.length > 1 ? `${counted(size)} GPUs` : "fastest of each split",
          marker: { color: cool[number % 4], size: 5, opacity: 0.5 },
        },
      ),
    ),
    ...[...Map.groupBy(front, ({ gpus }) => gpus).values()].map((on, number) => edge(on, number === 0)),
    bestOf(best, ticked),
    ...(yours ? [points([yours], yourMark())] : []),
  ];
  put(at("scatter-about"), `right of the line: more than the ${gigabytes(limit_bytes)} that a run may fill`);
  await chart(at("scatter"), traces, {
    xaxis: { title: "memory of the fullest GPU, GB", rangemode: "tozero" },
    yaxis: { title: "tokens/s/GPU", rangemode: "tozero" },
    shapes: [upright(limit_bytes / GB, { color: resolved("--bad"), dash: "dash" })],
    height: 380,
    legend: ABOVE,
    margin: { l: 56, r: 12, t: 8, b: 44 },
  });
}

function points(layouts, more) {
  return {
    x: layouts.map(({ memory_bytes }) => memory_bytes / GB),
    y: layouts.map((one) => one.tokens_per_s_per_gpu),
    text: layouts.map(({ said }) => said),
    customdata: layouts.map(({ gpus }) => counted(gpus)),
    mode: "markers",
    type: "scatter",
    hovertemplate: "%{text}<br>%{y:,.0f} tokens/s/GPU, %{x:.1f} GB, %{customdata} GPUs<extra></extra>",
    ...more,
  };
}

/** Layouts of the same GPUs that none is better than in both. */
function edge(front, isFirst) {
  const sorted = [...front].sort((a, b) => a.memory_bytes - b.memory_bytes);
  return points(sorted, {
    name: "no other is better in both",
    mode: "lines+markers",
    showlegend: isFirst,
    legendgroup: "front",
    line: { color: resolved("--accent"), width: 1.5, shape: "hv" },
    marker: { size: 5, color: resolved("--accent") },
  });
}

function bestOf(rows, ticked) {
  const ranked = rows.map((row, number) => ({ ...row, said: `${number + 1}: ${row.said}` }));
  const are = rows.map((_, number) => ticked.includes(String(number + 1)));
  const [ink, ground] = ["--ink", "--ground"].map(resolved);
  return points(ranked, {
    name: "the best of the table",
    marker: {
      size: are.map((is) => (is ? 13 : 9)),
      color: resolved("--good"),
      line: { color: are.map((is) => (is ? ink : ground)), width: 1.5 },
    },
  });
}

function yourMark() {
  const line = { color: resolved("--ground"), width: 1.5 };
  return { name: "yours", marker: { symbol: "diamond", size: 13, color: resolved("--wait"), line } };
}
