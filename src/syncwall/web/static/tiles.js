// Numbers that stand out: a name, a value, and a word beside it.
import { h } from "./dom.js";
import { term } from "./terms.js";

/** One of them; `exact` is the number behind the text. */
export function tile(id, name, value, beside, exact) {
  return h(
    "div",
    { class: "tile", data: { tile: id, value: exact ?? "" } },
    h("div", { class: "name" }, term(name)),
    h("div", { class: "value" }, value),
    h("div", { class: "beside" }, beside),
  );
}
