// The first thing that a visitor sees: what this is, runs to begin with, and where to read more. An example's run is
// that of its button; without one, it is the run that a page starts with.
import { at } from "./dom.js";
import { openPaste } from "./paste.js";
import * as state from "./state.js";

/** Let the buttons of the element `door` do what they say, and mark the example that the address holds. */
export function door() {
  const examples = [...at("door").querySelectorAll("[data-example]")];
  const runOf = ({ dataset: { example } }) => (example ? JSON.parse(example) : state.FIRST);
  for (const one of examples) one.addEventListener("click", () => state.setRun(runOf(one)));
  at("paste-mine").addEventListener("click", () => openPaste());
  const marked = () => {
    const now = Object.entries(state.flattened(state.run()));
    const isNow = (run) =>
      now.length === Object.keys(run).length && now.every(([key, value]) => run[key] === String(value));
    for (const one of examples) one.setAttribute("aria-pressed", String(isNow(runOf(one))));
  };
  state.heard(marked);
  marked();
  for (const one of at("door").querySelectorAll("button")) one.disabled = false; // until now nothing heard a click
}
