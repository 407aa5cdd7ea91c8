// Layouts side by side: their ledgers as bars over each other, and where each spends more.
import { colour, isWait, ordered } from "../causes.js";
import { h } from "../dom.js";
import { counted, duration, figures, percent } from "../format.js";

/** Draw runs that were compared; `names` are what they are called. */
export function comparison(runs, names) {
  const longest = Math.max(...runs.map((run) => run.step_s));
  return h(
    "div",
    { class: "compare" },
    h(
      "div",
      { class: "compare-bars" },
      runs.map((run, number) => bar(run, names[number], longest)),
    ),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Seconds by cause" }, table(runs, names)),
  );
}

function bar(run, name, longest) {
  const parts = ordered(run.ledger_s).filter(([, seconds]) => seconds > 0);
  return h(
    "div",
    { class: "compare-run", data: { value: run.step_s } },
    h(
      "div",
      { class: "row" },
      h("b", {}, name),
      h("span", { class: "small" }, run.said),
      h(
        "span",
        { class: "small quiet" },
        `${duration(run.step_s)}, MFU ${percent(run.mfu)}, ${figures(run.memory_bytes / 1e9)} GB${run.fits ? "" : ": does not fit"}`,
      ),
    ),
    h(
      "div",
      { class: "ledger-bar", "aria-hidden": "true", style: { width: `${(100 * run.step_s) / longest}%` } },
      parts.map(([cause, seconds]) =>
        h("span", {
          class: isWait(cause) ? "wait" : "",
          title: `${cause} ${duration(seconds)}`,
          style: { width: `${(100 * seconds) / run.step_s}%`, "--cause": colour(cause) },
        }),
      ),
    ),
  );
}

function table(runs, names) {
  const largest = {};
  for (const run of runs)
    for (const [cause, seconds] of Object.entries(run.ledger_s))
      largest[cause] = Math.max(largest[cause] ?? 0, seconds);
  const least = 0.0005 * runs[0].step_s;
  const causes = ordered(largest)
    .filter(([, seconds]) => seconds >= least)
    .map(([cause]) => cause);
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { class: "words" }, "cause"),
        names.map((name, number) => h("th", { colspan: number ? 2 : 1 }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      causes.map((cause) =>
        h(
          "tr",
          { data: { cause } },
          h("th", { scope: "row" }, h("span", { class: "swatch", style: { "--cause": colour(cause) } }), cause),
          runs.flatMap((run, number) => pair(run.ledger_s[cause] ?? 0, number && difference(run, cause), number)),
        ),
      ),
      h(
        "tr",
        { class: "sum" },
        h("th", { scope: "row" }, "step"),
        runs.flatMap((run, number) => pair(run.step_s, number && run.step_s - runs[0].step_s, number)),
      ),
      h(
        "tr",
        {},
        h("th", { scope: "row" }, "tokens/s/GPU"),
        runs.flatMap((run, number) => [h("td", {}, counted(run.tokens_per_s_per_gpu)), number ? h("td", {}) : null]),
      ),
    ),
  );
}

const difference = (run, cause) => run.differences.find((one) => one.cause === cause)?.seconds ?? 0;

function pair(seconds, more, number) {
  const said = more ? `${more > 0 ? "+" : "−"}${duration(Math.abs(more))}` : "";
  return [
    h("td", { class: "nowrap" }, seconds ? duration(seconds) : "–"),
    number ? h("td", { class: `nowrap apart ${more > 0 ? "worse" : "better"}`, data: { apart: more } }, said) : null,
  ];
}
