// A ledger as a bar and a list: seconds by cause.
import { LEAST_SHARE } from "./cause_list.js";
import { colour, isWait, ordered, title } from "./causes.js";
import { h } from "./dom.js";
import { duration, percent } from "./format.js";

/** One bar of all causes, and a line for each. */
export function ledger(seconds, { total = "step", text = duration } = {}) {
  const entries = ordered(seconds);
  const whole = entries.reduce((sum, [, value]) => sum + value, 0);
  const shown = entries.filter(([, value]) => value >= LEAST_SHARE * whole);
  const largest = Math.max(...shown.map(([, value]) => value));
  return h(
    "div",
    { class: "ledger" },
    h(
      "div",
      { class: "ledger-bar", "aria-hidden": "true" },
      shown.map(([cause, value]) =>
        h("span", {
          title: `${title(cause)} ${text(value)}`,
          style: { width: `${(100 * value) / whole}%`, "--cause": colour(cause) },
          class: isWait(cause) ? "wait" : "",
        }),
      ),
    ),
    h(
      "table",
      {},
      h(
        "thead",
        { class: "visually-hidden" },
        h(
          "tr",
          {},
          h("th", { class: "words" }, "cause"),
          h("th", {}, "bar"),
          h("th", {}, "time"),
          h("th", {}, "share"),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map(([cause, value]) =>
          h(
            "tr",
            { data: { cause, value } },
            h(
              "th",
              { scope: "row", title: title(cause) },
              h("span", { class: "swatch", style: { "--cause": colour(cause) } }),
              cause,
            ),
            h(
              "td",
              { class: "ledger-line", "aria-hidden": "true" },
              h("span", { style: { width: `${(100 * value) / largest}%`, "--cause": colour(cause) } }),
            ),
            h("td", { class: "nowrap" }, text(value)),
            h("td", { class: "nowrap quiet" }, percent(value / whole)),
          ),
        ),
        h(
          "tr",
          { class: "sum" },
          h("th", { scope: "row" }, total),
          h("td", {}),
          h("td", { class: "nowrap" }, text(whole)),
          h("td", { class: "quiet" }, "100 %"),
        ),
      ),
    ),
  );
}
