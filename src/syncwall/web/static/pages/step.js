// How a step works: films of a data-parallel step, of an all-reduce, and of a pipeline.
import { answering, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { recoloured } from "../chart.js";
import { at, h, items, put } from "../dom.js";
import { csvFile, drawing, jsonFile, svgFile, tabulated } from "../exports.js";
import { duration, gigabytes, plural } from "../format.js";
import { runForm } from "../run_form.js";
import * as state from "../state.js";
import { collectiveDetails, collectiveFilm } from "../step/collective.js";
import { controls } from "../step/controls.js";
import { passKinds, pipelineDetails, pipelineFilm } from "../step/pipeline.js";
import { Player } from "../step/player.js";
import { teamFilm } from "../step/team.js";
import { sharesTable } from "../step/team_lanes.js";
import { command, takeAlong } from "../take_along.js";

const TABS = ["team", "collective", "pipeline"];
const tab = () => (TABS.includes(state.get("step.tab")) ? state.get("step.tab") : "team");
const number = (key, otherwise, most) => Math.min(Math.max(Number(state.get(key, otherwise)) || otherwise, 1), most);
let answer = null;
let drawn = "";
let width = 0;

const films = new Player(at("player"), {
  moved: (t) => state.set({ "step.at": t }),
  told: (text) => put(at("told"), text),
});

/** What the page asks for, and where. */
function question() {
  const run = state.run();
  const workers = Math.max(4, Math.round(number("step.workers", 6, 8)));
  const slow = {
    slow: number("step.slow", 1, 5),
    worker: Math.round(number("step.worker", 3, tab() === "pipeline" ? 16 : 8)),
  };
  if (tab() === "pipeline") return ["step/pipeline", { run, ...slow }];
  if (tab() === "collective")
    return ["step/collective", { run, workers, size: Number(state.get("step.size")) || null }];
  const mode = ["ddp", "fsdp"].includes(state.get("step.mode")) ? state.get("step.mode") : "run";
  return ["step", { run, mode, workers, ...slow }];
}

let asked = "";
const found = answering(
  async (signal) => {
    const [path, body] = question();
    put(at("command"), command(state.command()));
    answer = await ask(path, body, { signal });
    if (answer.idle_of) answer.idle = answer.idle_of.map((kind) => answer.idle[kind]);
    draw();
  },
  { impossible: refused, wait_ms: 60 },
);

function refused() {
  [asked, answer] = ["", null];
  films.pause();
  const isChanged = tab() === "pipeline" || state.get("step.mode");
  return isChanged ? "This run cannot be laid out this way" : "This run is not possible";
}

function heard(changes) {
  tabs();
  const now = JSON.stringify([tab(), question()]);
  const back = !Object.keys(changes).length; // the address itself changed, so its moment counts
  if (back) drawn = "";
  if (now !== asked) {
    asked = now;
    found();
  } else if (answer && (back || "step.way" in changes)) draw();
  controls(at("controls"), tab(), answer);
}

function goTo(name) {
  state.set({ "step.tab": name === "team" ? null : name, "step.at": null }, { lasting: true });
}

for (const name of TABS) {
  at(`tab-${name}`).addEventListener("click", () => goTo(name));
  at(`tab-${name}`).addEventListener("keydown", ({ key }) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!by) return;
    const next = TABS.at((TABS.indexOf(tab()) + by) % TABS.length);
    goTo(next);
    at(`tab-${next}`).focus();
  });
}

function tabs() {
  for (const button of at("tabs").children) {
    const chosen = button.id === `tab-${tab()}`;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  at("film").setAttribute("aria-labelledby", `tab-${tab()}`);
}

function draw() {
  if (!answer) return;
  width = Math.floor(at("scene").clientWidth);
  if (width < 50) return;
  const seek = (t) => films.go(t);
  const view = { team: teamView, collective: collectiveView, pipeline: pipelineView }[tab()];
  const film = view(seek);
  put(at("scene"), film.scene);
  put(at("lanes"), film.chart ?? "");
  const which = [tab(), state.get("step.way"), state.get("step.mode")].join();
  const wanted = drawn === which ? films.at : state.get("step.at") ? Number(state.get("step.at")) : null;
  drawn = which;
  at("film").dataset.shown = tab();
  controls(at("controls"), tab(), answer);
  films.load(
    {
      ...film,
      show(t, event, index) {
        film.show(t, event, index);
        put(at("says"), event.text);
        for (const one of at("phases").children)
          one.toggleAttribute("data-now", Number(one.dataset.phase) === event.phase);
      },
    },
    wanted,
  );
}

function teamView(seek) {
  const film = teamFilm(answer, width, seek);
  const [needs, has] = [answer.memory_bytes, answer.memory_size_bytes].map(gigabytes);
  const lack = answer.fits ? "" : `; needs ${needs} of memory and does not fit ${has}, drawn all the same`;
  const mood = answer.lost_s > 0 ? "bad" : answer.fits ? "good" : "warn";
  said(answer.verdict, mood, answer.step_s, `Predicted step ${duration(answer.step_s)}: ${answer.layout}${lack}.`);
  at("verdict").dataset.lost = answer.lost_s;
  phases(
    answer.phases.map(({ name, seconds }, index) => [index + 1, name, index ? duration(seconds) : "taken as 0 s"]),
    (index) => seek(index === 1 ? film.from : answer.phases[index - 1].start_s),
  );
  legend(
    [
      ["forward", "forward"],
      ["backward", "backward"],
      ["update", "update"],
      ["weights", "weights"],
      ["gradients", "gradients"],
      ["tokens", "tokens"],
      ["waits", "waits"],
    ].filter(
      ([kind]) => !["weights", "gradients", "tokens"].includes(kind) || answer.flights.some((one) => one.kind === kind),
    ),
  );
  put(at("details-name"), `Where the ${duration(answer.span_s)} of each worker go`);
  put(
    at("details"),
    sharesTable(answer),
    h(
      "p",
      { class: "small quiet" },
      "The step: ",
      Object.entries(answer.parts_s)
        .filter(([, s]) => Math.abs(s) > 1e-9)
        .map(([name, seconds]) => `${name} ${duration(seconds)}`)
        .join(" + "),
      ` = ${duration(answer.slow_step_s)}${answer.lost_s > 0 ? "" : ", as predicted"}.`,
    ),
  );
  notes([
    `${answer.workers} of ${answer.dp} data-parallel workers${answer.pp > 1 ? ", on the last pipeline stage" : ""}; each is ${plural(answer.gpus_each, "GPU")}, and all that are not drawn are like those that are not slow.`,
    `Durations are the prediction's own. The last of ${answer.microbatches} micro batches is drawn, with all workers beginning it together${answer.microbatches > 1 ? "; what a slow worker costs in those before is counted in the step" : ""}.`,
    "Neighbouring layers, buckets and collectives are drawn as one where there are too many to see, and their short waits together at the end of the piece; the seconds are exact.",
    answer.hidden_s > 1e-9 &&
      `The pipeline is interleaved: the prediction hides another ${duration(answer.hidden_s)} of the exchange behind other virtual stages of the same rank, which are not drawn.`,
    "A collective starts when the last worker is ready. A worker that waits beyond what the wires alone would take waits for the slowest.",
    "In a card, the bar is the model: forward fills it from the left, backward comes back from the right, and the lower edge shows whose gradients all workers have.",
  ]);
  return film;
}

function collectiveView(seek) {
  const film = collectiveFilm(answer, width, state.get("step.way") === "tree" ? "tree" : "ring");
  said(film.verdict, "", null, film.lead);
  phases(film.phases, (index) => seek(film.starts[index - 1]));
  legend(film.legend);
  put(at("details-name"), "Ring or tree: time by size");
  collectiveDetails(at("details"), answer);
  notes(film.notes);
  return film;
}

function pipelineView(seek) {
  const film = pipelineFilm(answer, width, seek);
  said(film.verdict, answer.slow > 1 ? "bad" : "", null, film.lead);
  const names = ["Filling", "Forward and backward in turn", "Draining"];
  phases(
    names.map((name, index) => [
      index + 1,
      name,
      duration((answer.phases[index + 1] ?? answer.span_s) - answer.phases[index]),
    ]),
    (index) => seek(answer.phases[index - 1]),
  );
  legend([...passKinds(answer), ["waits", "bubble: nothing to do"]]);
  put(at("details-name"), "Each stage");
  put(at("details"), pipelineDetails(answer));
  notes(film.notes);
  return film;
}

function said(text, mood, step_s, lead) {
  verdict(text, mood, lead);
  if (step_s === null) delete at("verdict").dataset.value;
  else at("verdict").dataset.value = step_s;
}

function phases(list, seek) {
  put(
    at("phases"),
    list.map(([index, name, about]) =>
      h(
        "li",
        { data: { phase: index } },
        h(
          "button",
          { type: "button", onclick: () => seek(index) },
          h("b", {}, `${index} ${name}`),
          h("span", {}, about),
        ),
      ),
    ),
  );
  at("phases").hidden = !list.length;
}

const legend = (list) =>
  put(
    at("legend"),
    list.map(([kind, name]) => h("span", {}, h("i", { class: `key ${kind}` }), name)),
    h(
      "span",
      { class: "keys no-print" },
      h("kbd", {}, "space"),
      " play  ",
      h("kbd", {}, "←"),
      " ",
      h("kbd", {}, "→"),
      " step",
    ),
  );
const notes = (list) => put(at("notes"), items(list.filter(Boolean)));

await runForm();
takeAlong(
  csvFile("step", () => tabulated(at("details").querySelector("table"))),
  jsonFile("step", () => answer),
  svgFile("step", () => drawing(at("lanes").querySelector("svg") ?? at("scene").querySelector("svg")), "SVG as drawn"),
);
state.heard(heard);
heard({});
new ResizeObserver(() => {
  if (Math.abs(Math.floor(at("scene").clientWidth) - width) > 2) draw();
}).observe(at("scene"));
recoloured(() => tab() === "collective" && draw());
