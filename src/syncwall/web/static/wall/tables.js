// The walls in figures: of every run that is compared, with each change, and every count.
import { problemText } from "../ask.js";
import { h, quiet } from "../dom.js";
import { counted, duration, figures, gigabytes, many, percent } from "../format.js";
import * as state from "../state.js";
import { table, unseen, words } from "../table.js";
import { COLOURS, remove } from "./comparisons.js";

/** Most GPUs at a level; + if the curve ends there. */
const wallText = (wall) =>
  wall.holds_to_gpus === null ? "none" : `${counted(wall.holds_to_gpus)}${wall.falls_at_gpus === null ? "+" : ""}`;
const topText = (top) => `${counted(top.gpus)}${top.ended_by === "range" ? "+" : ""}`;

/** One row for each run: where it starts, its walls, what stops it. */
export function summary(runs, names, levels) {
  const several = runs.length > 1;
  const columns = [
    words("run"),
    "from",
    ...levels.map((level) => percent(level, 0)),
    "fastest",
    "tokens/s there",
    words("what stops it"),
    several && unseen("remove"),
  ];
  const rows = runs.map((run, index) => row(run, index, names[index], levels, several));
  return table(columns, rows, { "aria-label": "Walls of the runs" });
}

function row(run, index, name, levels, several) {
  const line = h("span", { class: "line", "aria-hidden": "true", style: { "--cause": `var(${COLOURS[index]})` } });
  const removing =
    index > 0 && h("button", { type: "button", "aria-label": `Remove ${name}`, onclick: () => remove(index - 1) }, "×");
  const last = several && (removing || "");
  if (run.problems) {
    const said = run.problems.map(problemText).join("; ");
    return { cells: [[line, name], { content: said, class: "words fault", colspan: levels.length + 4 }, last] };
  }
  return {
    data: { run: index },
    cells: [
      [line, name],
      counted(run.base.gpus),
      ...run.walls.map((wall, place) => ({
        content: [wallText(wall), h("div", { class: "quiet small" }, ends(run.wall_ranges[place]))],
        data: { level: wall.level, value: wall.holds_to_gpus ?? "" },
      })),
      topText(run.fastest),
      many(run.fastest.tokens_per_s),
      run.main_cause ?? (run.falls ? "several" : "–"),
      last,
    ],
  };
}

const ends = ({ least_gpus, most_gpus, is_open }) =>
  `${least_gpus === null ? "none" : counted(least_gpus)} – ${most_gpus === null ? "none" : counted(most_gpus)}${is_open ? "+" : ""}`;

/** The walls with each change beside those without. */
export function moves({ levels, rows }, scaling) {
  const first = rows[0].walls[scaling];
  if (!first) return quiet(`No ${scaling} scaling to move.`);
  const made = rows.map((one, index) => {
    const walls = one.walls[scaling];
    const cells = walls?.map((wall, place) => ({
      content: wallText(wall),
      class: moved(wall, first[place]),
      data: { value: wall.holds_to_gpus ?? "" },
    }));
    const found = cells ? [...cells, topText(one.fastest[scaling])] : [...levels.map(() => ""), ""];
    const keys = one.keys?.[scaling];
    const apply =
      keys &&
      h("button", { type: "button", class: "link", onclick: () => state.set(keys, { lasting: true }) }, one.change);
    return { class: index ? null : "now", cells: [apply || one.change, ...found] };
  });
  return table([words(`${scaling} scaling`), ...levels.map((level) => percent(level, 0)), "fastest"], made);
}

function moved(wall, before) {
  const far = (one) => (one.holds_to_gpus === null ? 0 : one.holds_to_gpus + (one.falls_at_gpus === null ? 0.5 : 0));
  return far(wall) > far(before) ? "better" : far(wall) < far(before) ? "worse" : "quiet";
}

/** Every count of one run. */
export function counts(run) {
  const rows = run.gpus.map((count, i) => ({
    data: { gpus: count },
    cells: [
      counted(count),
      { content: percent(run.efficiency[i]), data: { value: run.efficiency[i] } },
      many(run.tokens_per_s[i]),
      figures(run.tokens_per_s_per_gpu[i]),
      { content: duration(run.step_s[i]), data: { value: run.step_s[i] } },
      gigabytes(run.memory_bytes[i]),
    ],
  }));
  return table([words("GPUs"), "efficiency", "tokens/s", "tokens/s/GPU", "step", "memory"], rows);
}
