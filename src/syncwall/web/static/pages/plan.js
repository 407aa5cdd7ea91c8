// Plan: search all layouts, look at what trades for what, compare a few.
import { beside, progress, verdict } from "../answering.js";
import { ask, follow, Refused } from "../ask.js";
import { recoloured } from "../chart.js";
import { at, put } from "../dom.js";
import { counted, percent } from "../format.js";
import { comparison } from "../plan/compare.js";
import { question, searchForm } from "../plan/form.js";
import { scatter } from "../plan/scatter.js";
import { bestTable, ticked } from "../plan/table.js";
import { faults, runForm } from "../run_form.js";
import * as state from "../state.js";

verdict(
  "Which layout is best on these GPUs?",
  "",
  "All that are possible are evaluated, each with the same prediction as on the first page. It takes some seconds.",
);
let running = null;
let found = null;
let asked = null;

async function search() {
  const mine = new AbortController();
  running = mine;
  asked = question();
  put(at("refused"));
  faults();
  searching(true);
  state.set({ "plan.go": "1" });
  try {
    await follow("plan", asked, (said) => (said.answer ? shown(said.answer) : moved(said.progress)), {
      signal: mine.signal,
    });
  } catch (error) {
    if (error instanceof Refused) refused(error);
    else if (error.name !== "AbortError") put(at("refused"), "The server does not answer.");
  }
  if (running === mine) searching(false);
}

function cancel() {
  running?.abort();
  searching(false);
  state.set({ "plan.go": null });
}

function searching(isOn) {
  if (!isOn) running = null;
  at("go").textContent = isOn ? "Cancel" : found ? "Search again" : "Search";
  at("go").classList.toggle("main", !isOn);
  at("bar").hidden = !isOn;
  put(at("bar-text"));
  if (isOn) moved(0);
}

function moved(share) {
  progress(share);
  put(at("bar-text"), percent(share, 0));
}

function refused(error) {
  faults(error.problems.filter(({ where }) => where));
  put(
    at("refused"),
    error.message,
    error.problems.some((one) => one.too_large) ? " Keep some fields of your layout, or search on fewer nodes." : "",
  );
}

function shown(answer) {
  found = answer;
  verdict(answer.verdict, answer.best.length ? "good" : "bad", [
    `${counted(answer.layouts_possible)} layouts are possible, ${counted(answer.layouts_fitting)} fit.`,
    answer.yours_wrong ? ` Yours is not possible: ${answer.yours_wrong}.` : "",
    answer.best.some(({ keys }) => Number(keys.cp ?? 1) > 1)
      ? " Layouts with cp are hopeful: ring attention is taken as hidden wherever its transfers are shorter than the computation."
      : "",
  ]);
  at("found").hidden = !answer.best.length;
  stale();
  drawn();
}

function drawn() {
  if (!found?.best.length) return;
  scatter(found, ticked());
  const focused = document.activeElement?.closest?.("tr")?.dataset.rank;
  put(at("best"), bestTable(found));
  if (focused)
    at("best")
      .querySelector(`tr[data-rank="${CSS.escape(focused)}"] input`)
      ?.focus();
  compare();
}

const compare = beside(
  "compare",
  async (signal) => {
    const rows = Object.fromEntries(found.best.map((row, number) => [String(number + 1), row]));
    if (found.yours) rows.yours = found.yours;
    const ranks = ticked().filter((rank) => rows[rank]);
    at("compare-panel").hidden = ranks.length < 2;
    if (ranks.length < 2) return null;
    const asking = ranks.map((rank) => (rank === "yours" ? asked.run : taking(rows[rank])));
    const { runs } = await ask("compare", { runs: asking }, { signal });
    const names = ranks.map((rank) => (rank === "yours" ? rank : `#${rank}`));
    put(at("compare-about"), `differences are to ${names[0]}; small ones are left out`);
    return comparison(runs, names);
  },
  0,
);

/** The run with the layout of a row. */
function taking(row) {
  const layout = { ...asked.run.layout, ...row.keys };
  const size = asked.run.gpus ? "gpus" : "nodes";
  return {
    ...asked.run,
    [size]: row[size],
    layout: Object.fromEntries(Object.entries(layout).filter(([, value]) => value !== null)),
  };
}

/** What was found holds for what was asked: say so when the run has changed since. */
function stale() {
  const isOld = found !== null && JSON.stringify(question()) !== JSON.stringify(asked);
  at("found").classList.toggle("stale", isOld);
  if (!running) put(at("bar-text"), isOld ? "the run has changed since this search" : "");
}

at("go").addEventListener("click", () => (running ? cancel() : search()));
await runForm();
searchForm();
let before = state.get("plan.compare");
state.heard(() => {
  stale();
  if (state.get("plan.compare") !== before) drawn();
  before = state.get("plan.compare");
});
recoloured(drawn);
if (state.get("plan.go")) search();
