// Predict: the numbers of one run, and what to change.
import { ask, newest, Refused } from "../ask.js";
import { at, copyLink, download, h, put, s } from "../dom.js";
import { counted, duration, figures, percent, prefixed } from "../format.js";
import { ledger } from "../ledger.js";
import { proposals } from "../proposals.js";
import { faults, runForm, taken } from "../run_form.js";
import * as state from "../state.js";
import { tile } from "../tiles.js";
import { timeline } from "../timeline.js";

const MOODS = { "does not fit": "bad", compute: "good" };
const MEMORY = {
  weights: "--gemm",
  gradients: "--exposed-dp",
  optimizer: "--optimizer",
  activations: "--attention",
  logits: "--head",
  gathered: "--exposed-tp",
  new_gradients: "--exposed-ep",
  reserve: "--contention",
};
const EXPORTS = {
  yaml: ["Run file (YAML)", "run.yaml", "application/yaml"],
  json: ["JSON", "prediction.json", "application/json"],
  perfetto: ["Perfetto trace", "step.json", "application/json"],
  html: ["Report (HTML)", "report.html", "text/html"],
};

const predicted = newest(async (signal) => {
  at("answer").classList.add("stale");
  put(at("command"), state.command());
  try {
    const answer = await ask("predict", state.run(), { signal });
    at("answer").classList.remove("refused");
    shown(answer);
    faults();
    later();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    faults(error.problems);
    refused(error);
  }
  at("answer").classList.remove("stale");
});

const later = newest(async (signal) => {
  const [line, next] = await Promise.allSettled([
    ask("timeline", state.run(), { signal }),
    ask("next", state.run(), { signal }),
  ]);
  if (signal.aborted) return;
  if (line.status === "fulfilled") timeline(at("timeline"), line.value, at("timeline-about"));
  else put(at("timeline"), h("p", { class: "quiet" }, line.reason.message));
  if (next.status === "fulfilled") {
    changes(next.value);
    remedy(next.value);
  } else {
    put(at("next"), h("p", { class: "quiet" }, next.reason.message));
    put(at("remedy"));
  }
}, 150);

function refused(error) {
  at("answer").classList.add("refused");
  for (const id of ["what", "remedy"]) put(at(id));
  put(at("verdict"), "This run is not possible: nothing was computed");
  at("verdict").className = "verdict bad";
  put(at("why"), error.message);
}

function shown(answer) {
  const waits = answer.exposed_s / answer.step_s;
  const { kind, text } = answer.verdict;
  put(at("verdict"), text);
  at("verdict").className = `verdict ${MOODS[kind] ?? "warn"}`;
  put(at("why"), answer.why);
  put(at("what"), answer.what);
  put(at("remedy"), !answer.fits && h("span", { class: "quiet" }, "looking for a change that makes it fit …"));
  open(answer);
  tiles(answer, waits);
  put(at("ledger"), ledger(answer.ledger_s));
  put(at("ledger-about"), `${counted(answer.gpus)} GPUs, ${counted(answer.tokens)} tokens a step`);
  memory(answer);
  put(at("evidence"), answer.evidence);
  put(
    at("assumed"),
    answer.assumed.map((line) => h("li", {}, line)),
  );
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
  put(
    at("tiles"),
    tile(
      "step",
      "Step",
      duration(answer.step_s),
      [`80 %: ${duration(low)} to ${duration(high)}`, whisker(low, answer.step_s, high)],
      answer.step_s,
    ),
    tile(
      "tokens",
      "Tokens/s/GPU",
      counted(answer.tokens_per_s_per_gpu),
      `${prefixed(answer.tokens_per_s_per_gpu * answer.gpus, "tokens/s")} in all`,
      answer.tokens_per_s_per_gpu,
    ),
    tile("mfu", "MFU", percent(answer.mfu), `HFU ${percent(answer.hfu)}; ${answer.mfu_convention}`, answer.mfu),
    tile(
      "waiting",
      "Waits for communication",
      percent(waits, 0),
      `${duration(answer.exposed_s)} of each step`,
      answer.exposed_s,
    ),
    tile(
      "memory",
      "Memory",
      `${figures(answer.memory_bytes / 1e9)} GB`,
      answer.fits
        ? `fits ${figures(answer.memory_size_bytes / 1e9)} GB`
        : `too much for ${figures(answer.memory_size_bytes / 1e9)} GB`,
      answer.memory_bytes,
    ),
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

function memory(answer) {
  const parts = Object.entries(answer.memory_by_cause_bytes).filter(([, bytes]) => bytes > 0);
  const whole = Math.max(answer.memory_bytes, answer.memory_size_bytes);
  put(at("memory-about"), `${figures(answer.memory_bytes / 1e9)} of ${figures(answer.memory_size_bytes / 1e9)} GB`);
  put(
    at("memory"),
    h(
      "div",
      { class: "memory-bar", "aria-hidden": "true" },
      parts.map(([cause, bytes]) =>
        h("span", {
          title: `${cause} ${figures(bytes / 1e9)} GB`,
          style: { width: `${(100 * bytes) / whole}%`, "--cause": `var(${MEMORY[cause] ?? "--other"})` },
        }),
      ),
      !answer.fits && h("i", { style: { left: `${(100 * answer.memory_size_bytes) / whole}%` } }),
    ),
    h(
      "div",
      { class: "memory-parts" },
      parts.map(([cause, bytes]) =>
        h(
          "div",
          { data: { cause, value: bytes } },
          h("span", { class: "swatch", style: { "--cause": `var(${MEMORY[cause] ?? "--other"})` } }),
          `${cause.replaceAll("_", " ")} ${figures(bytes / 1e9)} GB`,
        ),
      ),
    ),
  );
}

/** A proposal as keys of the address: null where a key leaves it. */
const keysOf = ({ layout, nodes, gpus_per_node }) => ({
  ...state.flattened({ layout }),
  ...(nodes && { nodes }),
  ...(gpus_per_node && { gpus_per_node }),
});

function changes({ next, more, step_s, fits }) {
  const found = next.length ? next : more ? [more] : [];
  const made = found.map((one) => ({
    change: one.change,
    gained: one.gained_s,
    gain: fits ? gainText(one.gained_s, step_s) : `${duration(step_s - one.gained_s)} a step`,
    isWorse: fits && one.gained_s < 0,
    beside: `memory ${one.memory_bytes >= 0 ? "+" : "−"}${figures(Math.abs(one.memory_bytes) / 1e9)} GB`,
    keys: keysOf(one),
  }));
  const said = fits ? "No single change of the layout helps." : "No single change of the layout makes it fit.";
  const onNodes = found.some(({ nodes }) => nodes);
  put(at("next"), (!next.length || onNodes) && h("p", { class: "quiet" }, said), made.length > 0 && proposals(made));
}

function gainText(gained_s, step_s) {
  const [sign, size_s] = [gained_s >= 0 ? "−" : "+", Math.abs(gained_s)];
  return `${sign}${duration(size_s)} (${sign}${percent(size_s / step_s, 0)})`;
}

/** What would make a run fit that does not. */
function remedy({ next: [first], step_s, fits }) {
  if (fits) return put(at("remedy"));
  const search = h("a", { href: `${state.pageWithRun("plan")}&plan.go=1` }, "search all layouts");
  if (!first) return put(at("remedy"), "Neither a single change nor up to 64 times the nodes makes it fit: ", search);
  const apply = () => state.set(keysOf(first), { lasting: true });
  put(
    at("remedy"),
    "It fits with ",
    h(
      "button",
      { type: "button", class: "main", onclick: apply },
      `${first.change}: ${duration(step_s - first.gained_s)} a step`,
    ),
    " or ",
    search,
  );
}

function exports() {
  put(
    at("exports"),
    Object.entries(EXPORTS).map(([kind, [label, name, type]]) =>
      h(
        "button",
        {
          type: "button",
          data: { export: kind },
          onclick: async () => {
            download(name, await ask(`export/${kind}`, state.run()), type);
          },
        },
        label,
      ),
    ),
    h("button", { type: "button", onclick: copyLink }, "Copy link"),
  );
}

await runForm();
exports();
state.heard((changes) => {
  const keys = Object.keys(changes);
  if (!keys.length || !keys.every((key) => key.startsWith("timeline."))) predicted();
});
predicted();
