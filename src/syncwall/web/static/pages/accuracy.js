// Accuracy: every published run beside its prediction, each with its source.

import { filters } from "../accuracy/filters.js";
import { runsOf } from "../accuracy/runs.js";
import { scatter } from "../accuracy/scatter.js";
import { verdict } from "../answering.js";
import { ask, newest, Refused } from "../ask.js";
import { asSvg, recoloured } from "../chart.js";
import { at, h, items, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { counted, percent } from "../format.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { fill } from "../view.js";

const ALIKE = 24; // marked
let answer = null;
let runs = new Map();
let alike = [];
let shownRuns = [];

const choose = (id) => state.set({ "accuracy.run": id });
const wish = (key) => state.get(`accuracy.${key}`);

const drawn = newest(async (signal) => {
  const { places, html } = await ask(
    "accuracy/shown",
    {
      ...Object.fromEntries(["source", "part", "device"].map((key) => [key, wish(key)])),
      words: wish("model"),
      doubtful: wish("doubtful") === "true",
      only: wish("alike") === "true" ? alike : null,
      chosen: wish("run"),
    },
    { signal },
  );
  const all = [...runs.values()];
  shownRuns = places.map((place) => all[place]);
  const before = at("run-about").querySelector("[data-run]")?.dataset.run;
  const chosen = runs.get(wish("run"));
  const { "run-about": about, ...others } = html;
  fill(chosen && chosen.id === before ? others : html);
  if (chosen && chosen.id !== before) opened(chosen);
  at("none").hidden = shownRuns.length > 0;
  at("scatter").hidden = shownRuns.length === 0;
  const asRatio = wish("view") === "ratio";
  at("as-ratio").setAttribute("aria-pressed", asRatio);
  if (shownRuns.length) await scatter(shownRuns, chosen, choose, asRatio);
}, 30);

/** The way to Predict, once the server has said what the run is. */
async function opened(run) {
  const place = at("run-about").appendChild(h("div"));
  try {
    const found = await ask(`accuracy/run?name=${encodeURIComponent(run.id)}`);
    const open = found.open.join(", ").replaceAll("_", " ");
    put(
      place,
      h("a", { class: "button", href: state.addressOf(found.run) }, "Open in Predict"),
      found.cited && h("p", { class: "quiet small" }, `In the source: ${found.cited}`),
      open && quiet(`The source does not say ${open}: what is usual counts here, what fits and is fastest in Predict.`),
    );
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(place, quiet(error.message));
  }
}

function walked(event) {
  const here = shownRuns.findIndex((run) => run.id === wish("run"));
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
    const { runs: near, html } = await ask("accuracy/alike", state.run());
    const mine = near.filter(({ id }) => runs.get(id)?.doubt === null);
    alike = mine.slice(0, ALIKE).map(({ id }) => id);
    for (const id of alike) runs.get(id).isAlike = true;
    fill(html);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("alike"), quiet(error.message));
  }
  drawn();
}

function shown(found) {
  answer = found;
  runs = new Map(runsOf(found).map((run) => [run.id, run]));
  const { unseen, published, held_out: here } = found;
  at("found").hidden = false;
  verdict(
    `Predictions are ${percent(unseen.mape)} off on average, on ${unseen.sources} sources that nobody had seen; ${percent(unseen.coverage80_sources, 0)} of their runs lie inside the 80% interval`,
    "",
    `That is what to expect of a run of yours (${unseen.date}). On ${published.sources} sources that no fit has read, but whose errors were in view, it is ${percent(published.mape)}, and ${percent(published.coverage80_sources, 0)} inside; each source counts the same. The tables of ${here.sources} of these sources come with syncwall: ${percent(here.mape)} over them. Below: all ${counted(runs.size)} runs that come with it, and the errors of those that are shown.`,
  );
  put(at("skipped"), `${counted(found.skipped)} of ${counted(found.rows)} published rows cannot be predicted.`);
  put(at("why-skipped"), items(found.why_skipped.map(([why, count]) => `${counted(count)}: ${why}`)));
  filters([...runs.values()]);
  drawn();
  likeMine();
  state.heard(() => drawn());
}

const COLUMNS = "id source model device gpus framework layout part measured_s predicted_s low_s high_s doubt".split(
  " ",
);
takeAlong(
  csvFile(
    "accuracy",
    () => [COLUMNS, ...shownRuns.map((run) => COLUMNS.map((name) => run[name]))],
    "CSV of the runs shown",
  ),
  svgFile("accuracy", () => asSvg(at("scatter"))),
  jsonFile("accuracy", () => shownRuns),
);
put(at("command"), command("syncwall validate"));
at("scatter").addEventListener("keydown", walked);
at("as-ratio").addEventListener("click", () => state.set({ "accuracy.view": wish("view") ? null : "ratio" }));
recoloured(() => answer && drawn());
shown(await ask("accuracy"));
