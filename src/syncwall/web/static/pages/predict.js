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
  if (next.status === "fulfilled") changes(next.value.next, next.value.step_s);
}, 150);

function refused(error) {
  put(at("verdict"), "This run cannot be: nothing was computed");
  at("verdict").className = "verdict bad";
  put(at("why"), error.message);
}

function shown(answer) {
  const waits = answer.exposed_s / answer.step_s;
  put(at("verdict"), answer.verdict);
  at("verdict").className = `verdict ${!answer.fits ? "bad" : answer.verdict.startsWith("compute") ? "good" : "warn"}`;
  put(at("why"), answer.why);
  put(at("split"), split(answer));
  taken(answer.layout, { seq: answer.seq, gpus_per_node: answer.gpus_per_node });
  tiles(answer, waits);
  put(at("ledger"), ledger(answer.ledger_s));
  put(at("ledger-about"), `${counted(answer.gpus)} GPUs, ${counted(answer.tokens)} tokens a step`);
  memory(answer);
  put(at("evidence"), answer.evidence);
  const open = Object.entries(answer.left_open)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  put(at("open"), open ? `Left open, and taken as: ${open}` : "");
  put(
    at("assumed"),
    answer.assumed.map((line) => h("li", {}, line)),
  );
}

function split({ layout, gpus, nodes, device }) {
  const axes = ["tp", "cp", "pp", "dp"].filter((axis) => layout[axis] > 1).map((axis) => `${axis} ${layout[axis]}`);
  const passes = layout.global_batch / layout.micro_batch / layout.dp;
  const batches = `${counted(passes)} micro batch${passes > 1 ? "es" : ""} of ${layout.micro_batch} a replica`;
  return `${axes.join(" × ") || "one rank"} = ${counted(gpus)} × ${device} in ${counted(nodes)} node${nodes > 1 ? "s" : ""}; ${batches}, recompute ${layout.recompute}`;
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

function changes(found, step_s) {
  if (!found.length) return put(at("next"), h("p", { class: "quiet" }, "No single change of the layout helps."));
  const changed = (layout) =>
    Object.fromEntries(Object.entries(layout).map(([key, value]) => [`layout.${key}`, value]));
  const made = found.map(({ change, gained_s, memory_bytes, layout }) => {
    const [sign, size_s] = [gained_s >= 0 ? "−" : "+", Math.abs(gained_s)];
    return {
      change,
      gained: gained_s,
      gain: `${sign}${duration(size_s)} (${sign}${percent(size_s / step_s, 0)})`,
      isWorse: gained_s < 0,
      beside: `memory ${memory_bytes >= 0 ? "+" : "−"}${figures(Math.abs(memory_bytes) / 1e9)} GB`,
      keys: changed(layout),
    };
  });
  put(at("next"), proposals(made));
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
