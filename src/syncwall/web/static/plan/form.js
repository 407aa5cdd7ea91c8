// What to search for, and what stays as it is.
import { at, h, put } from "../dom.js";
import { nodesUsed } from "../run_form.js";
import * as state from "../state.js";

/** Fields of a layout that a search may choose (`plan.space.SEARCHED`). */
export const SEARCHED = [
  "overlap_pp",
  "overlap_tp",
  "overlap_parameters",
  "overlap_gradients",
  "balanced_stages",
  "sp",
  "recompute",
  "recompute_layers",
  "virtual_stages",
  "schedule",
  "shard",
  "shard_degree",
  "tp",
  "pp",
  "cp",
  "ep",
  "etp",
  "micro_batch",
  "dispatcher",
  "overlap_ep",
];
const OBJECTIVES = { fastest: "the shortest step", cheapest: "the fewest GPU-hours", smallest: "the fewest GPUs" };
const FEWER = [1, 2, 4, 8];

/** Draw the form, as the address says. */
export function searchForm() {
  put(
    at("search-form"),
    field(
      "Best is",
      h(
        "select",
        { id: "objective", onchange: changed("objective") },
        Object.entries(OBJECTIVES).map(([value, said]) => h("option", { value }, said)),
      ),
    ),
    field(
      "Steps of at most, s",
      h("input", {
        id: "within",
        type: "number",
        min: 0,
        step: "any",
        placeholder: "any",
        onchange: changed("within"),
      }),
    ),
    field(
      "USD a GPU-hour",
      h("input", { id: "price", type: "number", min: 0, step: "any", placeholder: "none", onchange: changed("price") }),
    ),
    h(
      "label",
      { class: "check" },
      h("input", {
        id: "fewer",
        type: "checkbox",
        onchange: (event) => state.set({ "plan.fewer": event.target.checked ? "true" : null }),
      }),
      "also try ½, ¼ and ⅛ of the nodes",
    ),
    h("fieldset", { id: "keep", class: "keep" }),
  );
  at("search-form").addEventListener("submit", (event) => event.preventDefault());
  state.heard(shown);
  shown();
}

const field = (label, control) => h("label", { class: "field" }, h("span", {}, label), control);
const changed = (key) => (event) =>
  state.set({ [`plan.${key}`]: event.target.value === "fastest" ? null : event.target.value.trim() });

function shown() {
  for (const key of ["objective", "within", "price"])
    if (at(key) !== document.activeElement)
      at(key).value = state.get(`plan.${key}`, key === "objective" ? "fastest" : "");
  at("fewer").checked = state.get("plan.fewer") === "true";
  const stated = Object.entries(state.under("layout.")).filter(([key]) => SEARCHED.includes(key));
  const focused = document.activeElement?.dataset?.keep;
  const kept = keptFields();
  put(
    at("keep"),
    h("legend", {}, "Of your layout, keep"),
    stated.length
      ? stated.map(([key, value]) =>
          h(
            "label",
            { class: "check" },
            h("input", { type: "checkbox", data: { keep: key }, checked: kept.includes(key), onchange: keep }),
            `${key.replaceAll("_", " ")} ${value}`,
          ),
        )
      : h("span", { class: "quiet" }, "nothing is decided: everything is searched"),
  );
  if (focused)
    at("keep")
      .querySelector(`[data-keep="${CSS.escape(focused)}"]`)
      ?.focus();
}

function keep() {
  const ticked = [...at("keep").querySelectorAll("input:checked")].map((control) => control.dataset.keep);
  state.set({ "plan.keep": ticked.join(",") });
}

function keptFields() {
  const stated = Object.keys(state.under("layout."));
  return state
    .get("plan.keep")
    .split(",")
    .filter((key) => stated.includes(key));
}

/** The search as the API takes it. */
export function question() {
  const run = state.run();
  const number = (key) => (state.get(`plan.${key}`) ? Number(state.get(`plan.${key}`)) : undefined);
  const nodes = nodesUsed();
  const sizes =
    state.get("plan.fewer") === "true"
      ? FEWER.map((by) => nodes / by).filter((count) => Number.isInteger(count) && count >= 1)
      : [];
  return {
    run,
    keep: keptFields(),
    nodes: sizes,
    objective: state.get("plan.objective", "fastest"),
    within_s: number("within"),
    usd_per_gpu_hour: number("price"),
  };
}
