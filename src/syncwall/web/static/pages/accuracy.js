// Accuracy: every published run beside its prediction, each with its source.

import { about, signedError } from "../accuracy/about.js";
import { filters } from "../accuracy/filters.js";
import { bySource, heldOut, kept, runsOf, score } from "../accuracy/runs.js";
import { scatter } from "../accuracy/scatter.js";
import { verdict } from "../answering.js";
import { ask, newest, Refused } from "../ask.js";
import { asSvg, recoloured } from "../chart.js";
import { at, h, items, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { counted, percent, plural } from "../format.js";
import * as state from "../state.js";
import { table, words } from "../table.js";
import { command, takeAlong } from "../take_along.js";
import { tile } from "../tiles.js";
import { linked } from "../web_links.js";

const ALIKE = 24; // marked
const NEAREST = 6; // listed
let answer = null;
let runs = [];
let shownRuns = [];

const choose = (id) => state.set({ "accuracy.run": id });

const drawn = newest(async () => {
  shownRuns = kept(runs).sort((a, b) => a.measured_s - b.measured_s);
  const chosen = runs.find((run) => run.id === state.get("accuracy.run"));
  tiles(score(shownRuns));
  sources();
  worst();
  about(chosen, answer.sources[chosen?.source]);
  at("none").hidden = shownRuns.length > 0;
  at("scatter").hidden = shownRuns.length === 0;
  const asRatio = state.get("accuracy.view") === "ratio";
  at("as-ratio").setAttribute("aria-pressed", asRatio);
  if (shownRuns.length) await scatter(shownRuns, chosen, choose, asRatio);
}, 30);

function tiles(found) {
  const held = heldOut(shownRuns, answer.held_out_parts);
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
    tile(
      "held-out",
      "Mean over sources",
      held.sources ? percent(held.mean) : "–",
      `of ${plural(held.sources, "held-out source")}, each counted the same`,
      held.mean,
    ),
    shown("covered", "Inside the 80% interval", () => percent(found.covered, 0), "80% would be right"),
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
        [
          from.title,
          h("div", { class: "quiet small" }, [from.author, ...(from.author ? [", "] : []), linked(from.where)]),
        ],
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

/** Mark the runs that are most like the one in the address. */
async function likeMine() {
  try {
    const { what, runs: near } = await ask("accuracy/alike", state.run());
    const known = new Map(runs.map((run) => [run.id, run]));
    const mine = near.map(({ id }) => known.get(id)).filter((run) => run && run.doubt === null);
    for (const run of runs) run.isAlike = false;
    for (const run of mine.slice(0, ALIKE)) run.isAlike = true;
    const rows = mine
      .slice(0, NEAREST)
      .map((run) => [
        link(`${run.model}, ${counted(run.gpus)} × ${run.device}`, () => choose(run.id)),
        signedError(run),
      ]);
    put(at("alike-what"), what);
    put(at("alike"), table([words("run"), "error"], rows, { isHeadHidden: true }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("alike"), quiet(error.message));
  }
  drawn();
}

function shown(found) {
  answer = found;
  runs = runsOf(found);
  const { published, held_out: here } = found;
  at("found").hidden = false;
  verdict(
    `Predictions are ${percent(published.mape)} off on average, on ${published.sources} sources that no fit has read`,
    "",
    `Each source counts the same; median ${percent(published.median_ape)}, and ${percent(published.coverage80_sources, 0)} of their runs lie inside the 80% interval. The tables of ${here.sources} of these sources come with syncwall: ${percent(here.mape)} over them. Below: all ${counted(runs.length)} runs that come with it, and the errors of those that are shown.`,
  );
  put(at("skipped"), `${counted(found.skipped)} of ${counted(found.rows)} published rows cannot be predicted.`);
  put(at("why-skipped"), items(found.why_skipped.map(([why, count]) => `${counted(count)}: ${why}`)));
  filters(runs, found.parts);
  drawn();
  likeMine();
  state.heard(() => drawn());
}

function files() {
  const columns = [
    "id",
    "source",
    "model",
    "device",
    "gpus",
    "framework",
    "layout",
    "part",
    "measured_s",
    "predicted_s",
    "low_s",
    "high_s",
    "doubt",
  ];
  const rows = () => [columns, ...shownRuns.map((run) => columns.map((name) => run[name]))];
  takeAlong(
    csvFile("accuracy", rows, "CSV of the runs shown"),
    svgFile("accuracy", () => asSvg(at("scatter"))),
    jsonFile("accuracy", () => shownRuns),
  );
  put(at("command"), command("syncwall validate"));
}

at("scatter").addEventListener("keydown", walked);
at("as-ratio").addEventListener("click", () =>
  state.set({ "accuracy.view": state.get("accuracy.view") ? null : "ratio" }),
);
recoloured(() => answer && drawn());
files();
shown(await ask("accuracy"));
