// A run that is pinned as A: how far the run of the page is from it, tile by tile and cause by cause.
// It stands in the address, `pinned.model=…`, so that a link opens the comparison.
import { ask, newest, Refused } from "./ask.js";
import { LEAST_SHARE } from "./cause_list.js";
import { at, h, put, quiet } from "./dom.js";
import { duration, signed, signedPercent } from "./format.js";
import * as state from "./state.js";
import { command } from "./take_along.js";
import { term } from "./terms.js";

const PREFIX = "pinned.";
const RATIOS = { step: "step_s", tokens: "tokens_per_s_per_gpu", mfu: "mfu", memory: "memory_bytes" };
const APART = { true: "told apart", false: "cannot be told apart" };

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

/** Offer to pin this run; or, if one is, say how this one differs: `answer` is what the page shows. */
export const pinned = newest(async (signal, answer) => {
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
    const found = await ask("beside", asked, { signal });
    said(found, buttons);
    onTiles(found, answer);
    onLedger(found, answer);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("pinned"), h("p", {}, `A cannot be predicted: ${error.message}`), buttons);
  }
});

function said({ verdict, doubt, pinned: { what } }, buttons) {
  put(
    at("pinned"),
    h("p", { class: "pinned-said", "aria-live": "polite" }, verdict[0].replace(/\bB\b/g, "this run")),
    h("p", { class: "small" }, h("b", {}, "A "), what),
    buttons,
    h("details", {}, h("summary", {}, "How sure that is"), quiet(doubt), command(compareCommand())),
  );
}

/** The same in a terminal: A, and what this run has otherwise. */
function compareCommand() {
  const [first, now] = [state.under(PREFIX), state.runKeys()];
  const keys = new Set([...Object.keys(first), ...Object.keys(now)]);
  const other = [...keys].filter((key) => first[key] !== now[key]).map((key) => `${key}=${now[key] ?? "null"}`);
  const flags = Object.entries(first).map(([key, text]) => state.flag(key, text));
  return ["syncwall compare", ...flags, state.flag("against", other.join(",") || "seq=null")].join(" ");
}

function onTiles({ ratios, pinned: { exposed_s } }, answer) {
  for (const [name, key] of Object.entries(RATIOS)) if (ratios[key]) onTile(name, ratioText(ratios[key]), ratios[key]);
  onTile("waiting", signed(answer.exposed_s - exposed_s), { difference: answer.exposed_s - exposed_s });
}

const ratioText = ({ ratio, difference, told_apart }) =>
  `${difference === 0 ? "0%" : signedPercent(ratio - 1)}, ${APART[told_apart]}`;

function onTile(name, text, { difference, told_apart, ratio_interval }) {
  const tile = document.querySelector(`[data-tile="${name}"]`);
  const range = ratio_interval?.map((bound) => signedPercent(bound - 1, 0)).join(" to ");
  const kind = told_apart ? "delta apart" : "delta";
  const title = range && `80% interval of the difference: ${range}`;
  tile?.append(h("div", { class: kind, data: { delta: difference }, title }, `beside A: ${text}`));
}

function onLedger({ ledger_s, ratios, pinned }, answer) {
  const rows = document.querySelectorAll("#ledger tr[data-cause]");
  const shown = new Set([...rows].map((row) => row.dataset.cause));
  for (const row of rows) onRow(row, ledger_s[row.dataset.cause]);
  onRow(document.querySelector("#ledger tr.sum"), ratios.step_s.difference);
  const least_s = LEAST_SHARE * Math.max(answer.step_s, pinned.step_s);
  const gone = Object.entries(ledger_s).filter(([cause, s]) => !shown.has(cause) && Math.abs(s) >= least_s);
  const words = gone.flatMap(([cause, s], place) => [place ? ", " : "", term(cause), ` ${signed(s)}`]);
  if (gone.length) at("ledger").append(h("p", { class: "delta", data: { only: "A" } }, "Only in A: ", words));
}

function onRow(row, difference_s) {
  const text = difference_s === 0 ? "0 s" : signed(difference_s, duration);
  row.lastElementChild.append(h("span", { class: "delta", data: { delta: difference_s } }, text));
}
