// What is wrong with a run, one problem a line, and what to click where something is known to mend it.
import { ask, problemText, Refused } from "./ask.js";
import { h } from "./dom.js";
import * as state from "./state.js";

/** Problems as a list; buttons that mend them are added when the server has tried them. */
export const problemList = (problems) =>
  h(
    "ul",
    { class: "problems" },
    problems.map((one) => h("li", {}, plainly(one), " ", mends(one.where))),
  );

/** The problem without its key, where it names the field itself. */
const plainly = (one) => (one.what.includes(one.where.split(".").at(-1)) ? one.what : problemText(one));

/** Where the buttons for a problem with the key `where` go. */
export const mends = (where) => h("span", { class: "mends", data: { mends: where } });

/** Ask what would make the run possible, and offer it beside each problem. */
export async function mended(signal) {
  if (!document.querySelector("[data-mends]")) return;
  try {
    const { fixes } = await ask("fixes", state.run(), { signal });
    for (const place of document.querySelectorAll("[data-mends]"))
      place.replaceChildren(...fixes.filter(({ where }) => where === place.dataset.mends).map(button));
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // a body that no run has: nothing is known to mend it
  }
}

const button = ({ keys, said }) =>
  h("button", { type: "button", class: "mend", onclick: () => state.set(keys, { lasting: true }) }, said);
