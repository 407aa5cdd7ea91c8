// What the reader can set about a film; drawn once a tab, then only brought up to date.
import { h, put } from "../dom.js";
import { prefixed } from "../format.js";
import * as state from "../state.js";

const MODES = { run: "As the run", ddp: "DDP", fsdp: "FSDP" };
const WAYS = { ring: "Ring", tree: "Tree" };

/** Draw the controls of `tab`, or bring them to what the address says. */
export function controls(place, tab, answer) {
  if (place.dataset.tab !== tab) {
    place.dataset.tab = tab;
    put(place, made(tab).flat());
  }
  shown(place, tab, answer);
}

function made(tab) {
  if (tab === "pipeline") return [slow("stage"), which("stage", 16)];
  if (tab === "collective") return [choice("step.way", "Algorithm", WAYS), workers(), size()];
  return [choice("step.mode", "Sharding", MODES), workers(), slow("worker"), which("worker", 8)];
}

function choice(key, label, options) {
  const chosen = (value) => () =>
    state.set({ [key]: value === Object.keys(options)[0] ? null : value, "step.at": null }, { lasting: true });
  return h(
    "div",
    { class: "choice", role: "group", "aria-label": label, data: { key, first: Object.keys(options)[0] } },
    Object.entries(options).map(([value, name]) =>
      h("button", { type: "button", data: { value }, onclick: chosen(value) }, name),
    ),
  );
}

function workers() {
  return h(
    "label",
    { class: "inline" },
    "Workers drawn",
    h(
      "select",
      { name: "step.workers", onchange: (event) => state.set({ "step.workers": event.target.value }) },
      [4, 5, 6, 7, 8].map((value) => h("option", { value }, value)),
    ),
  );
}

function slow(what) {
  const changed = (event) =>
    state.set(
      { "step.slow": Number(event.target.value) > 1 ? event.target.value : null },
      { lasting: event.type === "change" },
    );
  return h(
    "label",
    { class: "inline slow" },
    `One ${what} computes slower`,
    h("input", { type: "range", name: "step.slow", min: 1, max: 5, step: 0.1, oninput: changed, onchange: changed }),
    h("output", { id: "slow" }),
  );
}

function which(what, most) {
  return h(
    "label",
    { class: "inline" },
    `Slow ${what}`,
    h(
      "select",
      { name: "step.worker", onchange: (event) => state.set({ "step.worker": event.target.value }, { lasting: true }) },
      Array.from({ length: most }, (_, index) => h("option", { value: index + 1 }, index + 1)),
    ),
  );
}

function size() {
  const changed = (event) =>
    state.set({ "step.size": 2 ** Number(event.target.value) }, { lasting: event.type === "change" });
  return [
    h(
      "label",
      { class: "inline slow" },
      "Size",
      h("input", { type: "range", name: "step.size", min: 10, max: 34, step: 1, oninput: changed, onchange: changed }),
      h("output", { id: "size" }),
    ),
    h(
      "button",
      { type: "button", class: "quiet", onclick: () => state.set({ "step.size": null }, { lasting: true }) },
      "Size of this run",
    ),
  ];
}

function shown(place, tab, answer) {
  for (const group of place.querySelectorAll(".choice")) {
    const value = state.get(group.dataset.key, group.dataset.first);
    for (const button of group.children) button.setAttribute("aria-pressed", button.dataset.value === value);
  }
  const control = (name) => place.querySelector(`[name="${name}"]`);
  if (control("step.workers")) control("step.workers").value = state.get("step.workers", "6");
  if (control("step.slow")) {
    control("step.slow").value = state.get("step.slow", "1");
    place.querySelector("#slow").textContent = `${Number(state.get("step.slow", "1"))}×`;
    const own = tab === "pipeline" ? answer?.stages : answer?.workers;
    if (own) for (const option of control("step.worker").options) option.hidden = Number(option.value) > own;
    control("step.worker").value = Math.min(Number(state.get("step.worker", "3")) || 3, own ?? 16);
  }
  if (control("step.size") && answer?.bytes) {
    const bytes = Number(state.get("step.size")) || answer.bytes;
    control("step.size").value = Math.log2(bytes);
    control("step.size").setAttribute("aria-valuetext", prefixed(bytes, "B"));
    place.querySelector("#size").textContent = prefixed(bytes, "B");
  }
}
