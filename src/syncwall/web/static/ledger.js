// A ledger as a bar and a list: seconds by cause.
import { LEAST_SHARE } from "./cause_list.js";
import { colour, isWait, ordered, title } from "./causes.js";
import { h, swatch } from "./dom.js";
import { duration, percent } from "./format.js";
import { table, words } from "./table.js";
import { term } from "./terms.js";

/** Parts of a whole beside each other: `{ said, value, colour, isWait }`. */
export function bar(parts, whole, { style = {}, more = null } = {}) {
  const made = parts.map((one) =>
    h("span", {
      title: one.said,
      style: { width: `${(100 * one.value) / whole}%`, "--cause": one.colour },
      class: one.isWait && "wait",
    }),
  );
  return h("div", { class: "ledger-bar", "aria-hidden": "true", style }, made, more);
}

/** The bar of a ledger's causes. */
export function causeBar(entries, whole, { text = duration, ...more } = {}) {
  const part = ([cause, value]) => ({
    said: `${title(cause)} ${text(value)}`,
    value,
    colour: colour(cause),
    isWait: isWait(cause),
  });
  return bar(entries.map(part), whole, more);
}

/** The name of a cause behind its colour. */
export const causeName = (cause) => [swatch(colour(cause)), term(cause)];

/** One bar of all causes, and a line for each. */
export function ledger(seconds, { total = "step", text = duration } = {}) {
  const entries = ordered(seconds);
  const whole = entries.reduce((sum, [, value]) => sum + value, 0);
  const shown = entries.filter(([, value]) => value >= LEAST_SHARE * whole);
  const largest = Math.max(...shown.map(([, value]) => value));
  const line = (cause, value) =>
    h("span", { style: { width: `${(100 * value) / largest}%`, "--cause": colour(cause) } });
  const rows = shown.map(([cause, value]) => ({
    data: { cause, value },
    cells: [
      causeName(cause),
      { content: line(cause, value), class: "ledger-line", "aria-hidden": "true" },
      text(value),
      { content: percent(value / whole), class: "quiet" },
    ],
  }));
  const sum = { class: "sum", cells: [total, "", text(whole), { content: percent(1, 0), class: "quiet" }] };
  return h(
    "div",
    { class: "ledger" },
    causeBar(shown, whole, { text }),
    table([words("cause"), "bar", "time", "share"], [...rows, sum], { isHeadHidden: true }),
  );
}
