// A run that is pinned as A: how far the run of the page is from it, tile by tile and cause by cause.
// It stands in the address, `pinned.model=…`, so that a link opens the comparison.
import { ask, newest, Refused } from "./ask.js";
import { at, h, put } from "./dom.js";
import * as state from "./state.js";
import { command } from "./take_along.js";
import { written } from "./view.js";

const PREFIX = "pinned.";

const isPinned = () => Object.keys(state.under(PREFIX)).length > 0;
const prefixed = (keys) => Object.fromEntries(Object.entries(keys).map(([key, text]) => [PREFIX + key, text]));
const gone = (keys) => Object.fromEntries(Object.keys(keys).map((key) => [key, null]));

function pin() {
  state.set({ ...gone(prefixed(state.under(PREFIX))), ...prefixed(state.runKeys()) }, { lasting: true });
}

function unpin() {
  state.set(gone(prefixed(state.under(PREFIX))), { lasting: true });
}

const button = (text, onclick) => h("button", { type: "button", onclick }, text);

/** Offer to pin this run; or, if one is, say how this one differs. */
export const pinned = newest(async (signal) => {
  if (!isPinned()) {
    put(at("pinned"), button("Pin as A", pin), h("span", { class: "quiet small" }, "and compare other runs with it"));
    return;
  }
  const buttons = [
    button("Back to A", () => state.setRun(state.under(PREFIX))),
    button("Pin this instead", pin),
    button("Unpin A", unpin),
  ];
  try {
    const asked = { pinned: state.run(state.under(PREFIX)), run: state.run() };
    const { html } = await ask("beside", asked, { signal });
    put(
      at("pinned"),
      h("p", { class: "pinned-said", "aria-live": "polite" }, written(html.said)),
      h("p", { class: "small" }, written(html.what)),
      buttons,
      h("details", {}, h("summary", {}, "How sure that is"), written(html.doubt), command(compareCommand())),
    );
    for (const [name, delta] of Object.entries(html.tiles))
      document.querySelector(`[data-tile="${name}"]`)?.append(...written(delta));
    for (const row of document.querySelectorAll("#ledger tbody tr"))
      row.lastElementChild.append(...written(html.rows[row.dataset.cause ?? ""] ?? ""));
    at("ledger").append(...written(html.gone));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("pinned"), h("p", {}, `A cannot be predicted: ${error.message}`), buttons);
  }
});

/** The same in a terminal: A, and what this run has otherwise. */
function compareCommand() {
  const [first, now] = [state.under(PREFIX), state.runKeys()];
  const keys = new Set([...Object.keys(first), ...Object.keys(now)]);
  const other = [...keys].filter((key) => first[key] !== now[key]).map((key) => `${key}=${now[key] ?? "null"}`);
  const flags = Object.entries(first).map(([key, text]) => state.flag(key, text));
  return ["syncwall compare", ...flags, state.flag("against", other.join(",") || "seq=null")].join(" ");
}
