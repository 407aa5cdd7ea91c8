// Sync wall: how far a run scales, what stops it, and what moves the wall.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { asSvg, recoloured } from "../chart.js";
import { at, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { inline, segments, select, shown as show, together } from "../form.js";
import { counted } from "../format.js";
import { runForm } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { adding, comparisons, edited, label } from "../wall/comparisons.js";
import { area, curves, legend, MEASURES } from "../wall/curves.js";
import { counts, moves, summary } from "../wall/tables.js";

const MOST = 2 ** 20;
const WAYS = { strong: "Strong: same global batch", weak: "Weak: same batch a replica" };
const DRAWN = ["wall.measure", "wall.of"];
let answer = null;
let moved = null;

const scaling = () => (state.get("wall.scaling") === "weak" ? "weak" : "strong");
const measure = () => (state.get("wall.measure") in MEASURES ? state.get("wall.measure") : "efficiency");
const most = () => Math.min(Math.max(Number.parseInt(state.get("wall.most", MOST), 10) || MOST, 1), MOST);

const asked = answering(
  async (signal) => {
    put(at("command"), command(`${state.command("plan wall")} --most ${most()}`));
    const others = comparisons();
    const body = { run: state.run(), most: most(), scaling: scaling(), others: others.map(edited) };
    const found = await ask("wall", body, { signal });
    answer = { ...found, names: ["this run", ...others.map(label)] };
    later();
    await shown();
  },
  { impossible: () => "There is no curve" },
);

const later = beside("moves", async (signal) => {
  const body = { run: state.run(), most: most() };
  const same = JSON.stringify(body);
  if (moved?.same !== same) {
    put(at("moves"), quiet("looking for a better layout, too …"));
    moved = { same, found: await ask("wall/moves", body, { signal }) };
  }
  return moves(moved.found, scaling());
});

async function shown() {
  const [first] = answer.runs;
  verdict(first.verdict, first.falls ? "warn" : "good", first.why);
  put(
    at("means"),
    `${first.model} on ${first.cluster}; ${first.layout} as on ${counted(first.stated_gpus)} GPUs, data parallelism grows; ${first.batch}. ` +
      `Efficiency: speed of a GPU over that on ${counted(first.base.gpus)} GPUs, the fewest on which it fits. A + means that the curve ends there. The band is the 80% interval: of a step as Predict states it, of efficiency what is added to the doubt at the base.`,
  );
  put(at("summary"), summary(answer.runs, answer.names, answer.levels));
  await drawn();
}

/** The pictures, from what was answered last. */
async function drawn() {
  if (!answer) return;
  const { runs, names } = answer;
  const several = runs.flatMap((run, index) => (run.gpus ? [[index, names[index]]] : []));
  const wanted = Number(state.get("wall.of", "0"));
  const chosen = runs[wanted]?.gpus ? wanted : 0;
  put(at("area-of"), several.length > 1 && inline("of", select("wall.of", Object.fromEntries(several), "0")));
  show(at("area-of"), () => String(chosen));
  put(at("table"), counts(runs[chosen]));
  put(at("legend"), legend(runs[chosen]));
  await Promise.all([curves(at("curve"), runs, names, measure()), area(at("area"), runs[chosen])]);
}

function controls() {
  const labels = Object.fromEntries(Object.entries(MEASURES).map(([key, one]) => [key, one.label]));
  const sizes = Array.from({ length: 11 }, (_, i) => 2 ** (10 + i));
  const most = select(
    "wall.most",
    Object.fromEntries(sizes.map((one) => [one, `${counted(one)} GPUs`])),
    String(MOST),
    {
      "aria-label": "Most GPUs",
    },
  );
  put(
    at("controls"),
    segments("wall.scaling", "How it grows", { strong: "Strong", weak: "Weak" }),
    segments("wall.measure", "What is shown", labels),
    inline("up to", most),
  );
  for (const [way, said] of Object.entries(WAYS)) at("controls").querySelector(`[data-choice=${way}]`).title = said;
  for (const id of ["controls", "area-of"]) together(at(id));
}

await runForm();
controls();
put(at("compare"), adding("dgx-b200"));
const ROWS = ["gpus", "efficiency", "tokens_per_s", "tokens_per_s_per_gpu", "step_s", "memory_bytes"];
const rows = () => [
  ["run", ...ROWS],
  ...answer.runs.flatMap((run, index) =>
    (run.gpus ?? []).map((_, i) => [answer.names[index], ...ROWS.map((name) => run[name][i])]),
  ),
];
takeAlong(
  csvFile("wall", rows),
  jsonFile("wall", () => answer),
  svgFile("wall", () => asSvg(at("curve"))),
);
state.heard((changes) => {
  const keys = Object.keys(changes);
  if (keys.length && keys.every((key) => DRAWN.includes(key))) drawn();
  else asked();
});
recoloured(drawn);
asked();
