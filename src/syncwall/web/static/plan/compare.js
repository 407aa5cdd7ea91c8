// Layouts side by side: their ledgers as bars over each other, and where each spends more.
import { ordered } from "../causes.js";
import { h } from "../dom.js";
import { counted, duration, gigabytes, percent, signed } from "../format.js";
import { causeBar, causeName } from "../ledger.js";
import { table, unseen, wide, words } from "../table.js";

/** Draw runs that were compared; `names` are what they are called. */
export function comparison(runs, names) {
  const longest = Math.max(...runs.map((run) => run.step_s));
  const bars = runs.map((run, number) => barOf(run, names[number], longest));
  return h(
    "div",
    { class: "compare" },
    h("div", { class: "compare-bars" }, bars),
    wide("Seconds by cause", causes(runs, names)),
  );
}

function barOf(run, name, longest) {
  const said = `${duration(run.step_s)}, MFU ${percent(run.mfu)}, ${gigabytes(run.memory_bytes)}`;
  return h(
    "div",
    { class: "compare-run", data: { value: run.step_s } },
    h(
      "div",
      { class: "row" },
      h("b", {}, name),
      h("span", { class: "small" }, run.said),
      h("span", { class: "small quiet" }, said, !run.fits && ": does not fit"),
    ),
    causeBar(ordered(run.ledger_s), run.step_s, { style: { width: `${(100 * run.step_s) / longest}%` } }),
  );
}

function causes(runs, names) {
  const largest = {};
  for (const run of runs)
    for (const [cause, seconds] of Object.entries(run.ledger_s))
      largest[cause] = Math.max(largest[cause] ?? 0, seconds);
  const shown = ordered(largest).filter(([, seconds]) => seconds >= 0.0005 * runs[0].step_s);
  const columns = names.flatMap((name, number) => (number ? [name, unseen(`more than ${names[0]}`)] : [name]));
  const beside = (of, apart) => runs.flatMap((run, number) => (number ? [of(run), apart(run)] : [of(run)]));
  const rows = shown.map(([cause]) => ({
    data: { cause },
    cells: [
      causeName(cause),
      ...beside(
        (run) => (run.ledger_s[cause] ? duration(run.ledger_s[cause]) : "–"),
        (run) => apart(run.differences.find((one) => one.cause === cause)?.seconds ?? 0),
      ),
    ],
  }));
  const step = beside(
    (run) => duration(run.step_s),
    (run) => apart(run.step_s - runs[0].step_s),
  );
  const speed = beside(
    (run) => counted(run.tokens_per_s_per_gpu),
    () => "",
  );
  return table(
    [words("cause"), ...columns],
    [...rows, { class: "sum", cells: ["step", ...step] }, ["tokens/s/GPU", ...speed]],
  );
}

const apart = (seconds) => ({
  content: seconds ? signed(seconds) : "",
  class: `apart ${seconds > 0 ? "worse" : "better"}`,
  data: { apart: seconds },
});
