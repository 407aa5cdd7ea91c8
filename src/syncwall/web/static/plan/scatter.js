// Layouts as points: what they need and what they give.
import { resolved } from "../causes.js";
import { chart } from "../chart.js";
import { at, put } from "../dom.js";
import { counted, figures } from "../format.js";

const GB = 1e9;

/** Draw what a search found; `ticked` are the ranks that are compared. */
export async function scatter(answer, ticked) {
  const limit = answer.limit_bytes / GB;
  const sizes = [...new Set(answer.families.map(([gpus]) => gpus))].sort((a, b) => b - a);
  const cool = ["--other", "--elementwise", "--attention", "--optimizer"].map(resolved);
  const traces = sizes.map((gpus, number) => {
    const mine = answer.families.filter((one) => one[0] === gpus);
    return points(
      mine.map((one) => one[2]),
      mine.map((one) => one[1]),
      mine.map((one) => one[3]),
      gpus,
      {
        name: sizes.length > 1 ? `${counted(gpus)} GPUs` : "fastest of each split",
        marker: { color: cool[number % 4], size: 5, opacity: 0.5 },
      },
    );
  });
  for (const gpus of new Set(answer.front.map((one) => one.gpus)))
    traces.push(
      front(
        answer.front.filter((one) => one.gpus === gpus),
        gpus,
        traces.length === sizes.length,
      ),
    );
  traces.push(best(answer.best, ticked));
  if (answer.yours)
    traces.push(
      points([answer.yours.memory_bytes], [answer.yours.tokens_per_s_per_gpu], [answer.yours.said], answer.yours.gpus, {
        name: "yours",
        marker: {
          symbol: "diamond",
          size: 13,
          color: resolved("--wait"),
          line: { color: resolved("--ground"), width: 1.5 },
        },
      }),
    );
  put(at("scatter-about"), `right of the line: more than ${figures(limit)} GB, the memory without what is left free`);
  await chart(at("scatter"), traces, {
    xaxis: { title: { text: "memory of the fullest GPU, GB" }, rangemode: "tozero" },
    yaxis: { title: { text: "tokens/s/GPU" }, rangemode: "tozero" },
    shapes: [
      {
        type: "line",
        x0: limit,
        x1: limit,
        yref: "paper",
        y0: 0,
        y1: 1,
        line: { color: resolved("--bad"), width: 1.5, dash: "dash" },
      },
    ],
    hovermode: "closest",
    height: 380,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", font: { size: 12 } },
    margin: { l: 56, r: 12, t: 8, b: 44 },
  });
}

function points(bytes, rates, words, gpus, more) {
  return {
    x: bytes.map((one) => one / GB),
    y: rates,
    text: words,
    mode: "markers",
    type: "scatter",
    customdata: bytes.map(() => counted(gpus)),
    hovertemplate: "%{text}<br>%{y:,.0f} tokens/s/GPU, %{x:.1f} GB, %{customdata} GPUs<extra></extra>",
    ...more,
  };
}

function front(on, gpus, isFirst) {
  const sorted = [...on].sort((a, b) => a.memory_bytes - b.memory_bytes);
  return points(
    sorted.map((one) => one.memory_bytes),
    sorted.map((one) => one.tokens_per_s_per_gpu),
    sorted.map((one) => one.said),
    gpus,
    {
      name: "no other is better in both",
      mode: "lines+markers",
      showlegend: isFirst,
      legendgroup: "front",
      line: { color: resolved("--accent"), width: 1.5, shape: "hv" },
      marker: { size: 5, color: resolved("--accent") },
    },
  );
}

function best(rows, ticked) {
  const shown = rows.map((row, number) => ({ row, rank: String(number + 1) }));
  const gpus = shown.map(({ row }) => counted(row.gpus));
  return {
    ...points(
      shown.map(({ row }) => row.memory_bytes),
      shown.map(({ row }) => row.tokens_per_s_per_gpu),
      shown.map(({ row, rank }) => `${rank}: ${row.said}`),
      0,
      {
        name: "the best of the table",
        customdata: gpus,
        marker: {
          size: shown.map(({ rank }) => (ticked.includes(rank) ? 13 : 9)),
          color: resolved("--good"),
          line: {
            color: shown.map(({ rank }) => (ticked.includes(rank) ? resolved("--ink") : resolved("--ground"))),
            width: 1.5,
          },
        },
      },
    ),
  };
}
