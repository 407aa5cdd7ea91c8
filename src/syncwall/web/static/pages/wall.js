// Sync wall: how far a run scales, what stops it, and what moves the wall.
import { ask, newest, Refused } from "../ask.js";
import { at, copyLink, h, put } from "../dom.js";
import { counted } from "../format.js";
import { faults, runForm } from "../run_form.js";
import * as state from "../state.js";
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

const asked = newest(async (signal) => {
  at("answer").classList.add("stale");
  controls();
  put(at("command"), `${state.command("plan wall")} --most ${most()}`);
  try {
    const others = comparisons();
    const found = await ask(
      "wall",
      { run: state.run(), most: most(), scaling: scaling(), others: others.map(edited) },
      { signal },
    );
    answer = { ...found, names: ["this run", ...others.map(label)] };
    faults();
    later();
    await shown();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    faults(error.problems);
    refused(error);
  }
  at("answer").classList.remove("stale");
});

const later = newest(async (signal) => {
  const body = { run: state.run(), most: most() };
  const same = JSON.stringify(body);
  if (moved?.same !== same) {
    put(at("moves"), h("p", { class: "quiet" }, "looking for a better layout, too …"));
    try {
      moved = { same, found: await ask("wall/moves", body, { signal }) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return put(at("moves"), h("p", { class: "quiet" }, error.message));
    }
  }
  put(at("moves"), moves(moved.found, scaling()));
}, 150);

function refused(error) {
  answer = null;
  put(at("verdict"), "There is no curve: nothing was computed");
  at("verdict").className = "verdict bad";
  put(at("why"), error.message);
  for (const id of ["means", "summary", "table", "moves", "area-of", "legend"]) put(at(id));
  for (const id of ["curve", "area"]) globalThis.Plotly?.purge(at(id));
}

async function shown() {
  const [first] = answer.runs;
  put(at("verdict"), first.verdict);
  at("verdict").className = `verdict ${first.falls ? "warn" : "good"}`;
  put(at("why"), first.why);
  put(
    at("means"),
    `${first.model} on ${first.cluster}; ${first.layout} as on ${counted(first.stated_gpus)} GPUs, data parallelism grows; ${first.batch}. ` +
      `Efficiency: speed of a GPU over that on ${counted(first.base.gpus)} GPUs, the fewest on which it fits. A + means that the curve ends there.`,
  );
  put(at("summary"), summary(answer.runs, answer.names, answer.levels));
  await drawn();
}

/** The pictures, from what was answered last. */
async function drawn() {
  if (!answer) return;
  const { runs, names } = answer;
  const wanted = Number(state.get("wall.of", "0"));
  const chosen = runs[wanted]?.gpus ? wanted : 0;
  const several = runs.flatMap((run, index) => (run.gpus ? [index] : []));
  put(
    at("area-of"),
    several.length > 1 &&
      h(
        "label",
        { class: "small" },
        "of",
        h(
          "select",
          { onchange: (event) => state.set({ "wall.of": event.target.value === "0" ? null : event.target.value }) },
          several.map((index) => h("option", { value: index, selected: index === chosen }, names[index])),
        ),
      ),
  );
  put(at("table"), counts(runs[chosen]));
  put(at("legend"), legend(runs[chosen]));
  await Promise.all([curves(at("curve"), runs, names, measure()), area(at("area"), runs[chosen])]);
}

function segments(name, options, current, key, first) {
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": name },
    Object.entries(options).map(([value, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(value === current),
          data: { choice: value },
          onclick: () => state.set({ [key]: value === first ? null : value }, { lasting: true }),
        },
        text,
      ),
    ),
  );
}

function controls() {
  const focus = document.activeElement?.dataset.choice;
  const sizes = Array.from({ length: 11 }, (_, i) => 2 ** (10 + i));
  const listed = sizes.includes(most()) ? sizes : [...sizes, most()].sort((a, b) => a - b);
  put(
    at("controls"),
    segments("How it grows", { strong: "Strong", weak: "Weak" }, scaling(), "wall.scaling", "strong"),
    segments(
      "What is shown",
      Object.fromEntries(Object.entries(MEASURES).map(([key, one]) => [key, one.label])),
      measure(),
      "wall.measure",
      "efficiency",
    ),
    h(
      "label",
      { class: "small" },
      "up to",
      h(
        "select",
        {
          "aria-label": "Most GPUs",
          onchange: (event) =>
            state.set(
              { "wall.most": Number(event.target.value) === MOST ? null : event.target.value },
              { lasting: true },
            ),
        },
        listed.map((value) => h("option", { value, selected: value === most() }, `${counted(value)} GPUs`)),
      ),
    ),
  );
  for (const button of at("controls").querySelectorAll("button"))
    if (button.dataset.choice in WAYS) button.title = WAYS[button.dataset.choice];
  if (focus) at("controls").querySelector(`[data-choice="${focus}"]`)?.focus();
}

await runForm();
put(at("compare"), adding("dgx-b200"));
at("copy").addEventListener("click", copyLink);
state.heard((changes) => {
  const keys = Object.keys(changes);
  if (keys.length && keys.every((key) => DRAWN.includes(key))) {
    controls();
    drawn();
  } else asked();
});
addEventListener("themechange", drawn);
asked();
