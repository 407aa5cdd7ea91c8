// Accuracy: every published run beside its prediction, each with its source.
import { bySource, kept, runsOf, score } from "../accuracy/runs.js";
import { filters } from "../accuracy/filters.js";
import { scatter } from "../accuracy/scatter.js";
import { follow, newest, Refused } from "../ask.js";
import { at, h, put } from "../dom.js";
import { counted, duration, percent } from "../format.js";
import * as state from "../state.js";
import { tile } from "../tiles.js";

let answer = null;
let runs = [];
let shownRuns = [];

const signed = (run) => `${run.ratio >= 1 ? "+" : "−"}${percent(run.error)}`;
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
    shown("within10", "Within 10 %", () => percent(found.within10, 0), "of the runs"),
    shown("within20", "Within 20 %", () => percent(found.within20, 0), "of the runs"),
    shown("covered", "Inside the 80 % interval", () => percent(found.covered, 0), "80 % would be right"),
  );
}

function about(run) {
  if (!run)
    return put(
      at("run-about"),
      h(
        "p",
        { class: "quiet" },
        "Choose a point to see what ran, what was predicted, and where the number comes from.",
      ),
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
        ` (${signed(run)}); 80 %: ${duration(run.low_s)} to ${duration(run.high_s)}${run.isCovered ? "" : ", which it misses"}`,
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

function worst() {
  const far = [...shownRuns].sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio))).slice(0, 8);
  put(
    at("worst"),
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        far.map((run) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h(
                "button",
                { type: "button", class: "link", onclick: () => choose(run.id) },
                `${run.model}, ${counted(run.gpus)} × ${run.device}`,
              ),
            ),
            h("td", { class: "nowrap" }, signed(run)),
          ),
        ),
      ),
    ),
  );
}

function sources() {
  const chosen = state.get("accuracy.source");
  put(
    at("sources"),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { class: "words" }, "source"),
          ["runs", "median error", "mean error", "in 80 %", "date"].map((name) => h("th", {}, name)),
          h("th", { class: "words" }, "title"),
        ),
      ),
      h(
        "tbody",
        {},
        bySource(kept(runs, "source")).map(([key, mine]) => {
          const found = score(mine),
            from = answer.sources[key];
          return h(
            "tr",
            { data: { source: key, count: found.count, median: found.median } },
            h(
              "th",
              { scope: "row" },
              h(
                "button",
                {
                  type: "button",
                  class: "link",
                  "aria-pressed": String(key === chosen),
                  onclick: () => state.set({ "accuracy.source": key === chosen ? null : key }),
                },
                key,
              ),
            ),
            h("td", {}, counted(found.count)),
            h("td", { class: "nowrap" }, percent(found.median)),
            h("td", { class: "nowrap" }, percent(found.mean)),
            h("td", { class: "nowrap" }, percent(found.covered, 0)),
            h("td", { class: "nowrap" }, from.date),
            h(
              "td",
              { class: "words" },
              from.title,
              h("div", { class: "quiet small" }, [from.author, from.where].filter(Boolean).join(", ")),
            ),
          );
        }),
      ),
    ),
  );
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

function moved(share) {
  at("bar").setAttribute("aria-valuenow", Math.round(100 * share));
  at("bar").firstElementChild.style.width = `${100 * share}%`;
}

function shown(found) {
  answer = found;
  runs = runsOf(found);
  const held = found.held_out;
  at("bar").hidden = true;
  at("found").hidden = false;
  put(
    at("verdict"),
    `Predictions are ${percent(held.mape)} off on average, on ${held.sources} sources that no fit has read`,
  );
  put(
    at("about"),
    `Each source counts the same; median ${percent(held.median_ape)}, and ${percent(held.coverage80_sources, 0)} of their runs lie inside the 80 % interval. Below: all ${counted(runs.length)} published runs, and the errors of those that are shown.`,
  );
  put(at("skipped"), `${counted(found.skipped)} of ${counted(found.rows)} published rows cannot be predicted.`);
  put(
    at("why-skipped"),
    found.why_skipped.map(([why, count]) => h("li", {}, `${counted(count)}: ${why}`)),
  );
  filters(runs, found.parts);
  drawn();
  state.heard(() => drawn());
}

at("scatter").addEventListener("keydown", walked);
at("as-ratio").addEventListener("click", () =>
  state.set({ "accuracy.view": state.get("accuracy.view") ? null : "ratio" }),
);
addEventListener("themechange", () => answer && drawn());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => answer && drawn());
try {
  await follow("accuracy", undefined, (said) => (said.answer ? shown(said.answer) : moved(said.progress)));
} catch (error) {
  put(at("refused"), error instanceof Refused ? error.message : "The server does not answer.");
}
