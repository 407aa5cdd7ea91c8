// Sync wall: how far a run scales, what stops it, and what moves the wall.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { asSvg, figures, recoloured } from "../chart.js";
import { at, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { inline, segments, select, shown as show, together } from "../form.js";
import { runForm } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { fill, written } from "../view.js";
import { adding, comparisons, edited, label, remove } from "../wall/comparisons.js";

const WAYS = { strong: "Strong: same global batch", weak: "Weak: same batch a replica" };
const MEASURES = {
  efficiency: "Efficiency",
  tokens_per_s: "Tokens/s",
  tokens_per_s_per_gpu: "Tokens/s/GPU",
  step_s: "Step",
};
let answer = null;
let moved = null;

const scaling = () => (state.get("wall.scaling") === "weak" ? "weak" : "strong");
const measure = () => (state.get("wall.measure") in MEASURES ? state.get("wall.measure") : "efficiency");
const most = () => Math.max(Number.parseInt(state.get("wall.most", ""), 10) || 0, 0) || null;

const asked = answering(
  async (signal) => {
    put(at("command"), command(state.command("plan wall") + (most() ? ` --most ${most()}` : "")));
    const others = comparisons();
    const names = others.map(label);
    const of = others[Number(state.get("wall.of")) - 1] ? Number(state.get("wall.of")) : 0;
    const body = { run: state.run(), most: most(), scaling: scaling(), others: others.map(edited), names };
    const found = await ask("wall", { ...body, measure: measure(), of }, { signal });
    answer = { ...found, names: ["this run", ...names] };
    later();
    const [first] = answer.runs;
    verdict(first.verdict, first.falls ? "warn" : "good");
    fill(answer.html);
    for (const button of at("summary").querySelectorAll("[data-remove]"))
      button.addEventListener("click", () => remove(Number(button.dataset.remove)));
    offered();
    await drawn();
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
  return written(moved.found.html[scaling()]);
});

const drawn = async () => answer && figures(answer.figures);

/** Of which run the ledger is shown. */
function offered() {
  const { runs, names } = answer;
  const several = runs.flatMap((run, index) => (run.gpus ? [[index, names[index]]] : []));
  put(at("area-of"), several.length > 1 && inline("of", select("wall.of", Object.fromEntries(several), "0")));
  show(at("area-of"), () => String(answer.of));
}

function controls() {
  const sizes = Array.from({ length: 8 }, (_, i) => 2 ** (10 + i));
  const counts = sizes.map((one) => [one, `${one.toLocaleString("en-US")} GPUs`]);
  const words = Object.fromEntries([...counts, ["", "the largest validated run"]]);
  put(
    at("controls"),
    segments("wall.scaling", "How it grows", { strong: "Strong", weak: "Weak" }),
    segments("wall.measure", "What is shown", MEASURES),
    inline("up to", select("wall.most", words, "", { "aria-label": "Most GPUs" })),
  );
  for (const [way, said] of Object.entries(WAYS)) at("controls").querySelector(`[data-choice=${way}]`).title = said;
  for (const id of ["controls", "area-of"]) together(at(id));
}

await runForm();
controls();
adding(at("compare").querySelector("form"));
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
state.heard(() => asked());
recoloured(drawn);
asked();
