// Predict: the numbers of one run, and what to change.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { at, download, h, items, put, s, swatch } from "../dom.js";
import { door } from "../door.js";
import { counted, deviceMemory, duration, gigabytes, many, percent } from "../format.js";
import { bar, ledger } from "../ledger.js";
import { pinned } from "../pinned.js";
import { changes, remedy } from "../predict/changes.js";
import { runForm, taken } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { term } from "../terms.js";
import { tile } from "../tiles.js";
import { timeline } from "../timeline.js";

const MOODS = { "does not fit": "bad", compute: "good" };
const MEMORY = {
  weights: "--gemm",
  gradients: "--exposed-dp",
  optimizer: "--optimizer",
  activations: "--attention",
  logits: "--output-layer",
  "unsharded weights": "--exposed-tp",
  "unreduced gradients": "--exposed-ep",
  "CUDA and NCCL": "--contention",
};
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
    pinned(answer);
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
    remedy(found);
    return changes(found, answer);
  } catch (error) {
    put(at("remedy"));
    throw error;
  }
});

function shown(answer) {
  const waits = answer.exposed_s / answer.step_s;
  const { kind, text } = answer.verdict;
  verdict(text, MOODS[kind] ?? "warn", answer.why);
  put(at("what"), answer.what);
  put(at("remedy"), !answer.fits && h("span", { class: "quiet" }, "looking for a change that makes it fit …"));
  open(answer);
  tiles(answer, waits);
  put(at("ledger"), ledger(answer.ledger_s));
  put(at("ledger-about"), `${counted(answer.gpus)} GPUs, ${counted(answer.tokens)} tokens a step`);
  memory(answer);
  put(at("evidence"), answer.evidence);
  put(at("assumed"), items(answer.assumed));
}

/** What nobody stated: in the form, and in a sentence for each reason. */
function open({ chosen, layout, seq, nodes, gpus_per_node }) {
  const key = (field) => (["framework", "date"].includes(field) ? `software.${field}` : `layout.${field}`);
  const reasons = Object.fromEntries(chosen.map(({ field, why }) => [key(field), why]));
  const values = Object.fromEntries(chosen.map(({ field, value }) => [key(field), value]));
  taken({ ...values, ...state.flattened({ layout }), seq, nodes, gpus_per_node }, reasons);
  for (const [id, follows] of [
    ["open", false],
    ["follows", true],
  ]) {
    const fields = chosen.filter((one) => one.follows === follows);
    put(at(id), fields.length > 0 && ["Left open: ", ...reasoned(fields), "."]);
  }
}

/** Fields and values, those with the same reason together. */
function reasoned(chosen) {
  const groups = [...Map.groupBy(chosen, ({ why }) => why)];
  return groups.flatMap(([why, fields], index) => [
    index ? "; " : "",
    ...fields.flatMap(({ field, value }, place) => [
      place ? ", " : "",
      h("span", { data: { chosen: field }, title: why }, `${field} ${value}`),
    ]),
    ` (${why})`,
  ]);
}

function tiles(answer, waits) {
  const [low, high] = answer.step_interval_s;
  const { step_s, tokens_per_s_per_gpu: speed, mfu, exposed_s, memory_bytes } = answer;
  const interval = [`80% interval: ${duration(low)} to ${duration(high)}`, whisker(low, step_s, high)];
  const whole = `${many(speed * answer.gpus)} tokens/s in all`;
  const room = `${answer.fits ? "fits" : "too much for"} ${deviceMemory(answer.memory_size_bytes)}`;
  put(
    at("tiles"),
    tile("step", "Step", duration(step_s), interval, step_s),
    tile("tokens", "Tokens/s/GPU", counted(speed), whole, speed),
    tile("mfu", "MFU", percent(mfu), `HFU ${percent(answer.hfu)}; ${answer.mfu_convention}`, mfu),
    tile("waiting", "Waits for communication", percent(waits, 0), `${duration(exposed_s)} of each step`, exposed_s),
    tile("memory", "Memory", gigabytes(memory_bytes), room, memory_bytes),
  );
}

function whisker(low, middle, high) {
  const x = (value) => 4 + (192 * value) / (high * 1.1);
  return s(
    "svg",
    { class: "interval", viewBox: "0 0 200 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("line", { class: "whole", x1: 4, x2: 196, y1: 7, y2: 7 }),
    s("line", { class: "likely", x1: x(low), x2: x(high), y1: 7, y2: 7 }),
    s("circle", { cx: x(middle), cy: 7, r: 4 }),
  );
}

function memory({ memory_by_cause_bytes, memory_bytes, memory_size_bytes, host_memory_bytes, fits }) {
  const parts = Object.entries(memory_by_cause_bytes)
    .filter(([, bytes]) => bytes > 0)
    .map(([cause, value]) => {
      const colour = `var(${MEMORY[cause] ?? "--other"})`;
      return { cause, value, colour, said: `${cause} ${gigabytes(value)}` };
    });
  const whole = Math.max(memory_bytes, memory_size_bytes);
  const end = !fits && h("i", { style: { left: `${(100 * memory_size_bytes) / whole}%` } });
  const names = parts.map(({ cause, value, colour }) =>
    h("div", { data: { cause, value } }, swatch(colour), term(cause), ` ${gigabytes(value)}`),
  );
  const onHost = host_memory_bytes ? `; ${gigabytes(host_memory_bytes)} on each host` : "";
  put(at("memory-about"), `${gigabytes(memory_bytes)} of ${gigabytes(memory_size_bytes)}${onHost}`);
  put(at("memory"), bar(parts, whole, { more: end }), h("div", { class: "memory-parts" }, names));
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
