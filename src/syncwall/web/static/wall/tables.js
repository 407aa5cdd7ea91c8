// The walls in figures: of every run that is compared, with each change, and every count.
import { h } from "../dom.js";
import { counted, duration, figures, percent, prefixed } from "../format.js";
import { COLOURS, remove } from "./comparisons.js";

/** A count in few letters. */
const gpus = (count) =>
  count >= 1e6 ? `${(count / 1e6).toFixed(2)}M` : count >= 1e5 ? `${Math.round(count / 1000)}k` : counted(count);

/** Most GPUs at a level; + if the curve ends there. */
const wallText = (wall) =>
  wall.holds_to_gpus === null ? "none" : `${gpus(wall.holds_to_gpus)}${wall.falls_at_gpus === null ? "+" : ""}`;
const topText = (top) => `${gpus(top.gpus)}${top.ended_by === "range" ? "+" : ""}`;

/** One row for each run: where it starts, its walls, what stops it. */
export function summary(runs, names, levels) {
  return h(
    "table",
    { "aria-label": "Walls of the runs" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { class: "words" }, "run"),
        h("th", {}, "from"),
        levels.map((level) => h("th", {}, percent(level, 0))),
        h("th", {}, "fastest"),
        h("th", {}, "tokens/s there"),
        h("th", { class: "words" }, "what stops it"),
        runs.length > 1 && h("th", {}, h("span", { class: "visually-hidden" }, "remove")),
      ),
    ),
    h(
      "tbody",
      {},
      runs.map((run, index) => row(run, index, names[index], levels, runs.length > 1)),
    ),
  );
}

function row(run, index, name, levels, several) {
  const head = h(
    "th",
    { scope: "row" },
    h("span", { class: "line", "aria-hidden": "true", style: { "--cause": `var(${COLOURS[index]})` } }),
    name,
  );
  const last =
    several &&
    h(
      "td",
      {},
      index > 0 &&
        h("button", { type: "button", "aria-label": `Remove ${name}`, onclick: () => remove(index - 1) }, "×"),
    );
  if (run.problems) {
    const said = run.problems.map(({ where, what }) => (where ? `${where}: ${what}` : what)).join("; ");
    return h("tr", {}, head, h("td", { class: "words fault", colspan: levels.length + 4 }, said), last);
  }
  return h(
    "tr",
    { data: { run: index } },
    head,
    h("td", {}, counted(run.base.gpus)),
    run.walls.map((wall) => h("td", { data: { level: wall.level, value: wall.holds_to_gpus ?? "" } }, wallText(wall))),
    h("td", {}, topText(run.fastest)),
    h("td", { class: "nowrap" }, prefixed(run.fastest.tokens_per_s, "")),
    h("td", { class: "words" }, run.main_cause ?? (run.falls ? "several" : "–")),
    last,
  );
}

/** The walls with each change beside those without. */
export function moves({ levels, rows }, scaling) {
  const [now, ...changed] = rows;
  const first = now.walls[scaling];
  if (!first) return h("p", { class: "quiet" }, `No ${scaling} scaling to move.`);
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { class: "words" }, `${scaling} scaling`),
        levels.map((level) => h("th", {}, percent(level, 0))),
        h("th", {}, "fastest"),
      ),
    ),
    h(
      "tbody",
      {},
      [now, ...changed].map((one, index) => {
        const walls = one.walls[scaling];
        return h(
          "tr",
          { class: index ? "" : "now" },
          h("th", { scope: "row" }, one.change),
          walls
            ? walls.map((wall, place) =>
                h(
                  "td",
                  { class: moved(wall, first[place]), data: { value: wall.holds_to_gpus ?? "" } },
                  wallText(wall),
                ),
              )
            : levels.map(() => h("td", {}, "")),
          h("td", {}, walls ? topText(one.fastest[scaling]) : ""),
        );
      }),
    ),
  );
}

function moved(wall, before) {
  const far = (one) => (one.holds_to_gpus === null ? 0 : one.holds_to_gpus + (one.falls_at_gpus === null ? 0.5 : 0));
  return far(wall) > far(before) ? "better" : far(wall) < far(before) ? "worse" : "quiet";
}

/** Every count of one run. */
export function counts(run) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["GPUs", "efficiency", "tokens/s", "tokens/s/GPU", "step", "memory"].map((name) => h("th", {}, name)),
      ),
    ),
    h(
      "tbody",
      {},
      run.gpus.map((count, i) =>
        h(
          "tr",
          { data: { gpus: count } },
          h("td", {}, counted(count)),
          h("td", { data: { value: run.efficiency[i] } }, percent(run.efficiency[i])),
          h("td", { class: "nowrap" }, prefixed(run.tokens_per_s[i], "")),
          h("td", {}, figures(run.tokens_per_s_per_gpu[i])),
          h("td", { class: "nowrap", data: { value: run.step_s[i] } }, duration(run.step_s[i])),
          h("td", { class: "nowrap" }, `${figures(run.memory_bytes[i] / 1e9)} GB`),
        ),
      ),
    ),
  );
}
