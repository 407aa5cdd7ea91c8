// Accuracy: every published run beside its prediction, each with its source.

import { filters } from "../accuracy/filters.js";
import { bySource, kept, runsOf, score } from "../accuracy/runs.js";
import { scatter } from "../accuracy/scatter.js";
import { progress, verdict } from "../answering.js";
import { follow, newest, Refused } from "../ask.js";
import { recoloured } from "../chart.js";
import { at, h, items, put, quiet } from "../dom.js";
import { counted, duration, percent, signedPercent } from "../format.js";
import * as state from "../state.js";
import { table, words } from "../table.js";
import { tile } from "../tiles.js";

let answer = null;
let runs = [];
let shownRuns = [];

const signedError = (run) => signedPercent(run.ratio - 1);
const choose = (id) => state.set({ "accuracy.run": id });

const drawn = newest(async () => {
  shownRuns = kept(runs).sort((a, b) => a.measured_s - b.measured_s);
  const chosen = runs.find((run) => run.id === state.get("accuracy.run"));
  tiles(score(shownRuns));
  sources();
  worst();
  about(chosen);
  const asRatio = state.get("accuracy.view") === "ratio";
  at("as-ratio").setAttribute("aria-pressed", asRatio);
  await scatter(shownRuns, chosen, choose, asRatio);
}, 30);

function tiles(found) {
  const shown = (name, label, value, beside) => tile(name, label, found.count ? value() : "–", beside, found[name]);
  put(
    at("tiles"),
    shown("count", "Runs", () => counted(found.count), `of ${counted(runs.length)}`),
    shown("mean", "Mean error", () => percent(found.mean), "of |predicted / measured − 1|"),
    shown(
      "median",
      "Median error",
      () => percent(found.median),
      found.count ? `predicted/measured ${found.bias.toFixed(3)}` : "",
    ),
    shown("within10", "Within 10%", () => percent(found.within10, 0), "of the runs"),
    shown("within20", "Within 20%", () => percent(found.within20, 0), "of the runs"),
    shown("covered", "Inside the 80% interval", () => percent(found.covered, 0), "80% would be right"),
  );
}

function about(run) {
  if (!run)
    return put(
      at("run-about"),
      quiet("Choose a point to see what ran, what was predicted, and where the number comes from."),
    );
  const from = answer.sources[run.source];
  const line = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  put(
    at("run-about"),
    h(
      "dl",
      { class: "facts", data: { run: run.id } },
      line("ran", `${run.model} on ${counted(run.gpus)} × ${run.device}, ${run.framework || "framework not named"}`),
      line("layout", run.layout),
      line("measured", h("b", {}, duration(run.measured_s)), " a step"),
      line(
        "predicted",
        h("b", {}, duration(run.predicted_s)),
        ` (${signedError(run)}); 80% interval: ${duration(run.low_s)} to ${duration(run.high_s)}${run.isCovered ? "" : ", which it misses"}`,
      ),
      line("used for", run.part),
      run.doubt && line("in doubt", run.doubt),
      line(
        "source",
        `${from.title || run.source}. ${from.author}${from.author ? ", " : ""}${from.date}.`,
        h("br"),
        h("span", { class: "quiet" }, from.where),
      ),
      line("id", h("code", {}, run.id)),
    ),
  );
}

const link = (words, clicked, more = {}) =>
  h("button", { type: "button", class: "link", onclick: clicked, ...more }, words);

function worst() {
  const far = [...shownRuns].sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio))).slice(0, 8);
  const rows = far.map((run) => [
    link(`${run.model}, ${counted(run.gpus)} × ${run.device}`, () => choose(run.id)),
    signedError(run),
  ]);
  put(at("worst"), table([words("run"), "error"], rows, { isHeadHidden: true }));
}

function sources() {
  const chosen = state.get("accuracy.source");
  const rows = bySource(kept(runs, "source")).map(([key, mine]) => {
    const found = score(mine);
    const from = answer.sources[key];
    const clicked = () => state.set({ "accuracy.source": key === chosen ? null : key });
    return {
      data: { source: key, count: found.count, median: found.median },
      cells: [
        link(key, clicked, { "aria-pressed": String(key === chosen) }),
        counted(found.count),
        percent(found.median),
        percent(found.mean),
        percent(found.covered, 0),
        from.date,
        [from.title, h("div", { class: "quiet small" }, [from.author, from.where].filter(Boolean).join(", "))],
      ],
    };
  });
  const columns = [words("source"), "runs", "median error", "mean error", "in 80%", "date", words("title")];
  put(at("sources"), table(columns, rows));
}

function walked(event) {
  const here = shownRuns.findIndex((run) => run.id === state.get("accuracy.run"));
  const last = shownRuns.length - 1;
  const to = {
    ArrowRight: here + 1,
    ArrowUp: here + 1,
    ArrowLeft: here < 0 ? last : here - 1,
    ArrowDown: here < 0 ? last : here - 1,
    Home: 0,
    End: last,
    Enter: Math.max(here, 0),
  }[event.key];
  if (to === undefined || last < 0) return;
  event.preventDefault();
  choose(shownRuns[Math.max(0, Math.min(last, to))].id);
}

function shown(found) {
  answer = found;
  runs = runsOf(found);
  const held = found.held_out;
  at("bar").hidden = true;
  at("found").hidden = false;
  verdict(
    `Predictions are ${percent(held.mape)} off on average, on ${held.sources} sources that no fit has read`,
    "",
    `Each source counts the same; median ${percent(held.median_ape)}, and ${percent(held.coverage80_sources, 0)} of their runs lie inside the 80% interval. Below: all ${counted(runs.length)} published runs, and the errors of those that are shown.`,
  );
  put(at("skipped"), `${counted(found.skipped)} of ${counted(found.rows)} published rows cannot be predicted.`);
  put(at("why-skipped"), items(found.why_skipped.map(([why, count]) => `${counted(count)}: ${why}`)));
  filters(runs, found.parts);
  drawn();
  state.heard(() => drawn());
}

verdict("Predicting every published run…", "", "Once for all visitors; it takes some seconds.");
at("scatter").addEventListener("keydown", walked);
at("as-ratio").addEventListener("click", () =>
  state.set({ "accuracy.view": state.get("accuracy.view") ? null : "ratio" }),
);
recoloured(() => answer && drawn());
try {
  await follow("accuracy", undefined, (said) => (said.answer ? shown(said.answer) : progress(said.progress)));
} catch (error) {
  put(at("refused"), error instanceof Refused ? error.message : "The server does not answer.");
}
