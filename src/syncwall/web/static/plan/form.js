// What to search for, and what stays as it is.
import { at, h, put } from "../dom.js";
import { together } from "../form.js";
import { nodesUsed } from "../run_form.js";
import * as state from "../state.js";
import { SEARCHED } from "../word_list.js";
import { fieldWords } from "../words.js";
import { searchOf } from "./question.js";

const FEWER = [1, 2, 4, 8];

/** Bring the form of the page to life. */
export function searchForm() {
  together(at("search-form"));
  state.heard(shown);
  shown();
}

function shown() {
  const stated = Object.entries(state.under("layout.")).filter(([key]) => SEARCHED.includes(key));
  const focused = document.activeElement?.dataset?.keep;
  const kept = keptFields();
  const boxes = stated.map(([key, value]) => {
    const box = h("input", { type: "checkbox", data: { keep: key }, checked: kept.includes(key), onchange: keep });
    return h("label", { class: "check" }, box, fieldWords(key, value));
  });
  const none = h("span", { class: "quiet" }, "nothing is decided: everything is searched");
  put(at("keep"), h("legend", {}, "Keep from your layout"), boxes.length ? boxes : none);
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

/** The search as the API takes it; the layout of the page, which stands beside it, is asked for apart. */
export function question() {
  const run = state.run();
  const stated = (key) => (state.get(`plan.${key}`) ? Number(state.get(`plan.${key}`)) : undefined);
  const nodes = nodesUsed();
  const sizes =
    state.get("plan.fewer") === "true"
      ? FEWER.map((by) => nodes / by).filter((count) => Number.isInteger(count) && count >= 1)
      : [];
  return searchOf(run, {
    keep: keptFields(),
    nodes: sizes,
    objective: state.get("plan.objective", "fastest"),
    within_s: stated("within"),
    usd_per_gpu_hour: stated("price"),
  });
}
