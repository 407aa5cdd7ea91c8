// Lanes over time: a Gantt chart with a playhead, for workers and for pipeline stages.
import { hideTip, s, showTip } from "../dom.js";
import { duration } from "../format.js";

const LEFT = 76;
const TOP = 18;

/** A chart of `rows` ({name, bars, lanes}) up to `span`; returns the element and `at(t)`. */
export function lanes({ rows, span, width, label, seek, marks = [] }) {
  const left = width < 500 ? 58 : LEFT;
  const x = (t) => left + ((width - left - 6) * t) / span;
  let y = TOP;
  const drawn = [];
  for (const row of rows) {
    drawn.push(s("text", { x: 0, y: y + 13, class: row.strong ? "strong" : null }, row.name));
    for (const lane of row.lanes) {
      drawn.push(s("rect", { class: "lane", x: left, y, width: width - left - 6, height: lane.height }));
      for (const bar of lane.bars) drawn.push(...drawnBar(bar, x, y, lane.height));
      y += lane.height + 1;
    }
    y += 6;
  }
  const height = y + 2;
  const head = s("line", { class: "playhead", x1: left, x2: left, y1: TOP - 4, y2: height });
  const lines = marks
    .filter(({ at_s }) => at_s > 0 && at_s < span)
    .map(({ at_s }) => s("line", { class: "mark", x1: x(at_s), x2: x(at_s), y1: TOP - 2, y2: height }));
  const chart = s(
    "svg",
    { class: "lanes", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    hatches(),
    axis(span, x, width),
    drawn,
    lines,
    head,
  );
  chart.addEventListener("click", (event) => {
    const place = chart.getBoundingClientRect();
    const moment = (((event.clientX - place.left) * (width / place.width) - left) / (width - left - 6)) * span;
    if (moment >= 0) seek(Math.min(moment, span));
  });
  chart.addEventListener("pointermove", (event) =>
    event.target.dataset.tip ? showTip(event.target.dataset.tip, event) : hideTip(),
  );
  chart.addEventListener("pointerleave", hideTip);
  return {
    chart,
    at: (t) => {
      const now = x(Math.max(t, 0));
      head.setAttribute("x1", now);
      head.setAttribute("x2", now);
    },
  };
}

function drawnBar(bar, x, y, height) {
  const inset = bar.thin ? height * 0.3 : 0;
  const wide = Math.max(x(bar.end) - x(bar.start) - (bar.gap ?? 0), 0.6);
  const solid = bar.class === "waits" && wide < 6 ? " solid" : "";
  const box = s("rect", {
    class: bar.class + solid,
    x: x(bar.start),
    width: wide,
    y: y + inset,
    height: height - 2 * inset,
    data: { tip: bar.tip, ...bar.data },
  });
  const named = bar.text !== undefined && wide > 15;
  return named
    ? [
        box,
        s(
          "text",
          { class: "on", x: x(bar.start) + wide / 2, y: y + height / 2 + 4, "text-anchor": "middle" },
          bar.text,
        ),
      ]
    : [box];
}

/** Round times along the top. */
function axis(span, x, width) {
  const about = span / Math.max(3, Math.min(9, Math.floor(width / 110)));
  const power = 10 ** Math.floor(Math.log10(about));
  const each = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= about * 0.999);
  const found = [];
  for (let n = 0; n * each <= span * 0.97; n += 1)
    found.push(
      s(
        "text",
        { x: x(n * each), y: 10, "text-anchor": n ? "middle" : "start" },
        duration(Number((n * each).toPrecision(6))),
      ),
    );
  return found;
}

/** What waits is hatched, so that it is seen without colours too. */
export function hatches() {
  const one = (id, turn) =>
    s(
      "pattern",
      { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})` },
      s("rect", { class: "ground", width: 6, height: 6 }),
      s("line", { x1: 0, x2: 0, y1: 0, y2: 6 }),
    );
  return s("defs", {}, one("waits", 45));
}
