// What the reader can set about a film; drawn once a tab, then only brought up to date.
import { h, put } from "../dom.js";
import { inline, segments, select, shown, together } from "../form.js";
import { prefixed } from "../format.js";
import * as state from "../state.js";

const MODES = { run: "As the run", ddp: "DDP", fsdp: "FSDP" };
const WAYS = { ring: "Ring", tree: "Tree" };

/** Draw the controls of `tab`, or bring them to what the address says. */
export function controls(place, tab, answer) {
  const own = (tab === "pipeline" ? answer?.stages : answer?.workers) ?? 16;
  const text = (key, otherwise) =>
    key === "step.worker" ? String(Math.min(Number(state.get(key, "3")) || 3, own)) : state.get(key, otherwise);
  if (!place.dataset.tab) together(place);
  if (place.dataset.tab !== tab) put(place, made(tab).flat());
  place.dataset.tab = tab;
  shown(place, text);
  for (const option of place.querySelector("[name='step.worker']")?.options ?? [])
    option.hidden = Number(option.value) > own;
  said(place, "slow", `${Number(state.get("step.slow", "1"))}×`);
  if (answer?.bytes) sized(place, Number(state.get("step.size")) || answer.bytes);
}

function made(tab) {
  if (tab === "pipeline") return [slow("stage"), which("stage", 16)];
  if (tab === "collective") return [segments("step.way", "Algorithm", WAYS, "step.at"), workers(), size()];
  const mode = segments("step.mode", "Sharding", MODES, "step.at");
  return [mode, workers(), slow("worker"), which("worker", 8)];
}

const numbers = (from, to) =>
  Object.fromEntries(Array.from({ length: to - from + 1 }, (_, index) => [from + index, from + index]));

const workers = () => inline("Workers drawn", select("step.workers", numbers(4, 8), "6"));

const which = (what, most) => inline(`Slow ${what}`, select("step.worker", numbers(1, most), "3"));

function slow(what) {
  const range = { type: "range", name: "step.slow", min: 1, max: 5, step: 0.1, data: { live: "", first: "1" } };
  return inline(`One ${what} computes slower`, h("input", range), h("output", { id: "slow" }));
}

function size() {
  const changed = ({ target, type }) =>
    state.set({ "step.size": 2 ** Number(target.value) }, { lasting: type === "change" });
  const range = { id: "size", type: "range", min: 10, max: 34, step: 1, oninput: changed, onchange: changed };
  const own = () => state.set({ "step.size": null }, { lasting: true });
  return [
    inline("Size", h("input", range), h("output", { id: "sized" })),
    h("button", { type: "button", class: "quiet", onclick: own }, "Size of this run"),
  ];
}

function sized(place, bytes) {
  const range = place.querySelector("#size");
  if (!range) return;
  range.value = Math.log2(bytes);
  range.setAttribute("aria-valuetext", prefixed(bytes, "B"));
  said(place, "sized", prefixed(bytes, "B"));
}

function said(place, id, text) {
  const output = place.querySelector(`#${id}`);
  if (output) output.textContent = text;
}
