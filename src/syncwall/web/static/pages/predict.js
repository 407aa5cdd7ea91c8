// Predict: the numbers of one run, and what to change.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { at, download, h, put } from "../dom.js";
import { door } from "../door.js";
import { pinned } from "../pinned.js";
import { searchHere } from "../predict/search_here.js";
import { runForm, taken } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { timeline } from "../timeline.js";
import { fill, written } from "../view.js";

const MOODS = { "does not fit": "bad", compute: "good" };
const EXPORTS = {
  yaml: ["Run file (YAML)", "run.yaml", "application/yaml"],
  json: ["JSON", "prediction.json", "application/json"],
  perfetto: ["Perfetto trace", "step.json", "application/json"],
  html: ["Report (HTML)", "report.html", "text/html"],
};

let answer = null;
const predicted = answering(
  async (signal) => {
    put(at("command"), command(state.command()));
    answer = await ask("predict", state.run(), { signal });
    shown(answer);
    pinned();
    drawn();
    changed();
  },
  { impossible: () => "This run is not possible" },
);

const drawn = beside("timeline", async (signal) =>
  timeline(await ask("timeline", state.run(), { signal }), at("timeline-about")),
);

const changed = beside("next", async (signal) => {
  try {
    const found = await ask("next", state.run(), { signal });
    const search = h("a", { class: "button", href: `${state.pageWithRun("plan")}&plan.go=1` }, "Search all layouts");
    put(at("remedy"), written(found.html.remedy), !found.fits && search);
    return [written(found.html.next), searchHere(answer)];
  } catch (error) {
    put(at("remedy"));
    throw error;
  }
});

function shown({ verdict: { kind, text }, html, chosen, layout, seq, nodes, gpus_per_node }) {
  verdict(text, MOODS[kind] ?? "warn");
  fill(html);
  const key = (field) => (["framework", "date"].includes(field) ? `software.${field}` : `layout.${field}`);
  const reasons = Object.fromEntries(chosen.map(({ field, why }) => [key(field), why]));
  const values = Object.fromEntries(chosen.map(({ field, value }) => [key(field), value]));
  taken({ ...values, ...state.flattened({ layout }), seq, nodes, gpus_per_node }, reasons);
}

const exports = Object.entries(EXPORTS).map(([kind, [label, name, type]]) => {
  const saved = async () => download(name, await ask(`export/${kind}`, state.run()), type);
  return h("button", { type: "button", data: { export: kind }, onclick: saved }, label);
});

await runForm();
door();
takeAlong(...exports);
state.heard((changes) => {
  const keys = Object.keys(changes);
  if (!keys.length || !keys.every((key) => key.startsWith("timeline."))) predicted();
});
predicted();
