// What to change in a run: single changes, what makes it fit, and the best of all layouts.
import { at, h, put, quiet } from "../dom.js";
import { duration, gigabytes, signed, signedPercent } from "../format.js";
import { proposals } from "../proposals.js";
import * as state from "../state.js";
import { changeWords, pinned } from "../words.js";
import { searchHere } from "./search_here.js";

/** A proposal as keys of the address: null where a key leaves it. */
const keysOf = ({ layout, nodes, gpus_per_node }) => ({
  ...state.flattened({ layout }),
  ...(nodes && { nodes }),
  ...(gpus_per_node && { gpus_per_node }),
});

const gainText = (gained_s, step_s) => `${signed(-gained_s)} (${signedPercent(-gained_s / step_s, 0)})`;

/** The panel "What to change" for an answer of `next`, of a run with this prediction. */
export function changes({ next, more, step_s, fits }, predicted) {
  const found = fits ? (next.length ? next : [more].filter(Boolean)) : [...next, more].filter(Boolean);
  const made = found.map((one) => ({
    change: changeWords(one),
    gained: one.gained_s,
    gain: fits ? gainText(one.gained_s, step_s) : `${duration(step_s - one.gained_s)} a step`,
    isWorse: fits && one.gained_s < 0,
    beside: `memory ${signed(one.memory_bytes, gigabytes)}; ${pinned(one)}`,
    keys: keysOf(one),
  }));
  const none = fits ? "No single change of the layout helps." : "No single change of the layout makes it fit.";
  const isNone = !next.some(({ nodes }) => !nodes);
  return [
    isNone && quiet(none),
    made.length > 0 && quiet("One change at a time; what you left open stays open."),
    made.length > 0 && proposals(made),
    searchHere(predicted),
  ];
}

/** What would make a run fit that does not, in the element `remedy`. */
export function remedy({ next, more, step_s, fits }) {
  if (fits) return put(at("remedy"));
  const ways = [...(next[0]?.nodes ? next : next.slice(0, 1)), more].filter(Boolean);
  const buttons = ways.flatMap((one, place) => [
    place ? ", " : "",
    one.nodes ? "on " : "with ",
    h(
      "button",
      { type: "button", class: place ? "" : "main", onclick: () => state.set(keysOf(one), { lasting: true }) },
      `${changeWords(one)}: ${duration(step_s - one.gained_s)} a step`,
    ),
  ]);
  const search = h("a", { class: "button", href: `${state.pageWithRun("plan")}&plan.go=1` }, "Search all layouts");
  const none = "No single change, nor 64 times the nodes, nor the memory of hosts makes it fit: ";
  put(at("remedy"), ways.length ? ["It fits ", buttons, ", or "] : none, search);
}
