// Published runs: which are shown, and how far off they are.
import * as state from "../state.js";

const FEWEST = 3; // runs of a source that counts, as in syncwall.validate.score

/** The runs of an answer as objects. */
export function runsOf(answer) {
  const { words, parts, columns } = answer;
  const place = Object.fromEntries(columns.map((name, number) => [name, number]));
  return answer.runs.map((line) => {
    const run = Object.fromEntries(Object.entries(place).map(([name, number]) => [name, line[number]]));
    for (const name of ["source", "model", "device", "framework"]) run[name] = words[name][run[name]];
    run.part = parts[run.part];
    run.doubt = run.doubt < 0 ? null : words.doubt[run.doubt];
    run.ratio = run.predicted_s / run.measured_s;
    run.error = Math.abs(run.ratio - 1);
    run.isCovered = run.low_s <= run.measured_s && run.measured_s <= run.high_s;
    return run;
  });
}

/** Those that the address asks for; `without` names a filter to pass over. */
export function kept(runs, without = "") {
  const wanted = (key) => (key === without ? "" : state.get(`accuracy.${key}`));
  const [source, part, device, text] = ["source", "part", "device", "model"].map(wanted);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const alike = wanted("alike") === "true";
  const doubtful = state.get("accuracy.doubtful") === "true";
  return runs.filter(
    (run) =>
      (!source || run.source === source) &&
      (!part || run.part === part) &&
      (!device || run.device === device) &&
      (doubtful || run.doubt === null) &&
      (!alike || run.isAlike) &&
      words.every((word) => `${run.model} ${run.framework} ${run.id}`.toLowerCase().includes(word)),
  );
}

/** Errors over some runs, as `syncwall.validate.score` counts them. */
export function score(runs) {
  const count = runs.length;
  const errors = runs.map((run) => run.error).sort((a, b) => a - b);
  const share = (is) => runs.filter(is).length / count;
  return {
    count,
    mean: errors.reduce((sum, one) => sum + one, 0) / count,
    median: middle(errors),
    bias: middle(runs.map((run) => run.ratio).sort((a, b) => a - b)),
    within10: share((run) => run.error <= 0.1),
    within20: share((run) => run.error <= 0.2),
    covered: share((run) => run.isCovered),
  };
}

/** The mean over held-out sources, each counted the same, as the documentation states it; and how many they are. */
export function heldOut(runs, parts) {
  const held = runs.filter((run) => parts.includes(run.part) && run.doubt === null);
  const means = bySource(held)
    .filter(([, mine]) => mine.length >= FEWEST)
    .map(([, mine]) => score(mine).mean);
  return { sources: means.length, mean: means.reduce((sum, one) => sum + one, 0) / means.length };
}

function middle(sorted) {
  const half = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(half)] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Runs by their source. */
export const bySource = (runs) =>
  [...Map.groupBy(runs, ({ source }) => source)].sort(([, a], [, b]) => b.length - a.length);
