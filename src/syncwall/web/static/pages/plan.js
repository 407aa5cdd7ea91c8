// Plan: search all layouts, look at what trades for what, compare a few.
import { beside, progress, verdict } from "../answering.js";
import { ask, follow, Refused } from "../ask.js";
import { recoloured } from "../chart.js";
import { at, put } from "../dom.js";
import { counted, duration, percent } from "../format.js";
import { filters } from "../plan/filters.js";
import { question, searchForm } from "../plan/form.js";
import { handOver } from "../plan/hand_over.js";
import { scatter } from "../plan/scatter.js";
import { bestTable, ticked } from "../plan/table.js";
import { faults, runForm } from "../run_form.js";
import * as state from "../state.js";
import { written } from "../view.js";

verdict(
  "Which layout is best on these GPUs?",
  "",
  "All that are possible are evaluated, each with the same prediction as on the first page. It takes some seconds.",
);
let running = null;
let found = null;
let asked = null;
let whole = null;
let formats = {};

async function search() {
  const mine = new AbortController();
  running = mine;
  asked = question();
  whole = state.run();
  put(at("refused"));
  faults();
  searching(true);
  state.set({ "plan.go": "1" });
  try {
    const told = (said) => (said.answer ? shown(said.answer) : moved(said.progress, said.best));
    const own = ask("plan/yours", { ...asked, run: whole, keep: [] }, { signal: mine.signal });
    own.catch(() => null); // who cancels does not wait for it
    await follow("plan", asked, told, { signal: mine.signal });
    beside_yours(await own);
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

function moved(share, best) {
  progress(share);
  put(at("bar-text"), percent(share, 0));
  put(at("so-far"), best ? `Best so far: ${best.said}` : "");
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
  put(at("so-far"));
  said();
  at("found").hidden = !answer.best.length;
  stale();
  drawn();
}

/** The run as it stands, beside what was found. */
function beside_yours({ yours, yours_wrong }) {
  if (!found) return;
  found.yours = yours;
  found.yours_wrong = yours_wrong;
  said();
  drawn();
}

function said() {
  const answer = found;
  verdict(answer.verdict, answer.best.length ? "good" : "bad", [
    `${counted(answer.layouts_possible)} layouts are possible, ${counted(answer.layouts_fitting)} fit.`,
    answer.yours && answer.best.length ? ` ${yoursWords(answer.best[0], answer.yours)}` : "",
    answer.yours_wrong ? ` Yours is not possible: ${answer.yours_wrong}.` : "",
    answer.tuned.length ? ` Tuned: ${answer.tuned.map(({ said }) => said).join("; ")}.` : "",
    answer.best.some(({ keys }) => Number(keys.cp ?? 1) > 1)
      ? " Layouts with cp are hopeful: ring attention is taken as hidden wherever its transfers are shorter than the computation."
      : "",
  ]);
}

function yoursWords(best, yours) {
  if (!yours.fits) return "Yours does not fit.";
  const times = (yours.step_s / best.step_s).toFixed(2);
  return yours.gpus === best.gpus
    ? `Yours takes ${duration(yours.step_s)}: the best is ${times} times as fast.`
    : `A token costs ${(best.cost / yours.cost).toFixed(2)} of what it costs in yours.`;
}

function drawn() {
  if (!found?.best.length) return;
  scatter(found, ticked());
  const focused = document.activeElement?.closest?.("tr")?.dataset.rank;
  const sort = document.activeElement?.dataset?.sort;
  put(at("best"), bestTable(found));
  filters(found);
  handOver(found, taking, formats);
  if (sort)
    at("best")
      .querySelector(`[data-sort="${CSS.escape(sort)}"]`)
      ?.focus();
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
    const asking = ranks.map((rank) => (rank === "yours" ? whole : taking(rows[rank])));
    const names = ranks.map((rank) => (rank === "yours" ? rank : `#${rank}`));
    put(at("compare-about"), `differences are to ${names[0]}; small ones are left out`);
    return written((await ask("compare", { runs: asking, names }, { signal })).html);
  },
  0,
);

/** The run with the layout of a row. */
function taking(row) {
  const layout = { ...whole.layout, ...row.keys };
  const size = whole.gpus ? "gpus" : "nodes";
  return {
    ...whole,
    [size]: row[size],
    layout: Object.fromEntries(Object.entries(layout).filter(([, value]) => value !== null)),
  };
}

/** What was found holds for what was asked: say so when the run has changed since. */
function stale() {
  const isOld = found !== null && JSON.stringify([question(), state.run()]) !== JSON.stringify([asked, whole]);
  at("found").classList.toggle("stale", isOld);
  if (!running) put(at("bar-text"), isOld ? "the run has changed since this search" : "");
}

at("go").addEventListener("click", () => (running ? cancel() : search()));
({ settings: formats } = await runForm());
searchForm();
const asShown = () => state.query((key) => /^plan\.(compare|sort|only\.)/.test(key));
let before = asShown();
state.heard((changes) => {
  stale();
  if (asShown() !== before) drawn();
  before = asShown();
  if (!Object.keys(changes).length && state.get("plan.go")) again();
});
recoloured(drawn);
if (state.get("plan.go")) search();

/** Back, or forward, to a question that was asked before: its answer is kept. */
function again() {
  if (JSON.stringify(question()) === JSON.stringify(asked) && JSON.stringify(state.run()) === JSON.stringify(whole))
    return;
  running?.abort();
  search();
}
