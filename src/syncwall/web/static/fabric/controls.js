// What the fabric is built of: kind, switches, oversubscription; and which axis is shown.
import { h, put, s, swatch } from "../dom.js";
import { field, select, together } from "../form.js";
import { duration, figures } from "../format.js";
import * as state from "../state.js";
import { colour, named } from "./axes.js";

const KINDS = {
  "rail-optimised": "rail-optimised",
  "fat-tree-2": "fat tree, two tiers",
  "fat-tree-3": "fat tree, three tiers",
  dragonfly: "dragonfly",
  "rail-only": "rails only, no spines",
};
const RATIOS = [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16];

/** Draw the controls once; the functions that come back bring them to an answer, and to its variants. */
export function controls(place, switches) {
  const clears = { data: { clears: "fabric.failed" } };
  const offered = switches.map(({ name, title, ports, rate_bytes_per_s }) => [
    name,
    `${title}: ${ports} × ${figures((8 * rate_bytes_per_s) / 1e9)} Gb/s`,
  ]);
  const kind = select("fabric.kind", {}, "", clears);
  const listed = { "": "64 ports at the NICs' rate", ...Object.fromEntries(offered) };
  const made = select("fabric.switch", listed, "", clears);
  const said = h("output", { for: "ratio" });
  const slides = (event) => slid(event, said);
  const range = h("input", { id: "ratio", type: "range", min: 0, max: RATIOS.length - 1, step: 1, oninput: slides });
  const sweep = s("svg", { class: "sweep", viewBox: "0 0 150 34", "aria-hidden": "true" });
  const note = h("label", { for: "ratio" }, "Oversubscription: NICs of a leaf for each cable up");
  const cost = h("p", { class: "quiet small" });
  let usual = "";
  let value = 1;
  put(
    place,
    field("Kind", kind),
    field("Switches", made),
    h("div", { class: "slider" }, note, range, said, sweep, cost),
  );
  together(place, (key) => state.get(key) || (key === "fabric.kind" ? usual : ""));
  const brought = (answer) => {
    usual = answer.kind;
    put(kind, answer.kinds.map(kindOption));
    kind.value = answer.kind;
    const ratio = answer.oversubscription;
    value = ratio.asked ?? ratio.of_cluster;
    if (document.activeElement !== range) range.value = nearest(value);
    range.disabled = !ratio.matters;
    range.setAttribute("aria-valuetext", `${figures(value)} to 1`);
    put(said, ratio.matters ? `${figures(value)} : 1` : "no cables up");
    const ports = `a leaf has ${ratio.down} ports down, ${ratio.up} cables up`;
    put(note, `Oversubscription: ${ratio.matters ? ports : "nothing stands above the leaves"}`);
  };
  const swept = (answer) => {
    put(cost, answer.narrower);
    drawSweep(sweep, answer.sweep, value);
  };
  return [brought, swept];
}

const kindOption = ({ kind, possible, why_not }) =>
  h("option", { value: kind, disabled: !possible, title: why_not }, KINDS[kind], !possible && ` (${why_not})`);

const nearest = (value) =>
  RATIOS.reduce((best, one, index) => (Math.abs(one - value) < Math.abs(RATIOS[best] - value) ? index : best), 0);

function slid(event, said) {
  const value = RATIOS[Number(event.target.value)];
  event.target.setAttribute("aria-valuetext", `${value} to 1`);
  put(said, `${value} : 1`);
  state.set({ "fabric.oversubscription": value });
}

/** The step over the oversubscription, both from small to large. */
function drawSweep(place, sweep, value) {
  const most = Math.max(...sweep.map(({ step_s }) => step_s));
  const least = Math.min(...sweep.map(({ step_s }) => step_s));
  const x = (ratio) => 4 + (142 * Math.log(ratio)) / Math.log(16);
  const y = (step_s) => 29 - (most > least * 1.001 ? (24 * (step_s - least)) / (most - least) : 0);
  const line = sweep
    .map((one, index) => `${index ? "L" : "M"}${x(one.oversubscription).toFixed(1)} ${y(one.step_s).toFixed(1)}`)
    .join("");
  const here = sweep.findLast(({ oversubscription }) => oversubscription <= value) ?? sweep[0];
  put(
    place,
    s("title", {}, `step ${duration(least)} at 1:1, ${duration(most)} at 16:1`),
    s("line", { x1: 4, x2: 146, y1: 32, y2: 32 }),
    s("text", { x: 4, y: 10 }, most > least * 1.001 ? `${duration(most)} at 16 : 1` : "the step stays"),
    s("path", { d: line }),
    s("circle", { cx: x(value), cy: y(here.step_s), r: 3.5 }),
  );
}

/** Buttons that show one axis alone. */
export function legend(place, axes, chosen) {
  put(
    place,
    h("span", { class: "quiet small" }, "Traffic of"),
    axes.map((axis) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(chosen === axis),
          data: { axis },
          onclick: () => state.set({ "fabric.axis": chosen === axis ? null : axis }),
        },
        swatch(colour(axis)),
        named(axis),
      ),
    ),
    h("span", { class: "quiet small" }, axes.length ? "wider is busier" : "nothing: one GPU works alone"),
  );
}
