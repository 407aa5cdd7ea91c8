// Changes that help, as buttons that apply themselves.
import { h } from "./dom.js";
import * as state from "./state.js";

/** A list of `{ change, gained, gain, isWorse, beside, keys }`: the keys are set in the address. */
export function proposals(found) {
  return h(
    "div",
    { class: "proposals" },
    found.map(({ change, gained, gain, isWorse, beside, keys }) =>
      h(
        "button",
        { type: "button", data: { gained: gained ?? "" }, onclick: () => state.set(keys, { lasting: true }) },
        h("span", {}, change),
        h("span", { class: `gain ${isWorse ? "worse" : "better"}` }, gain),
        h("small", {}, beside),
      ),
    ),
  );
}
