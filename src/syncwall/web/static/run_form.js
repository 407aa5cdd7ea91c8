// The run at the left of a page: what is trained, on what, and how it is spread.
import { ask, Refused } from "./ask.js";
import { at, h, put } from "./dom.js";
import { counted } from "./format.js";
import * as state from "./state.js";

const POWERS = [1, 2, 4, 8, 16, 32, 64];
const SHARDS = {
  ddp: "DDP: nothing is sharded",
  zero1: "ZeRO-1: optimizer",
  zero2: "ZeRO-2: + gradients",
  fsdp: "FSDP / ZeRO-3: + weights",
};
const RECOMPUTE = {
  none: "nothing",
  selective: "attention scores",
  operations: "every second GEMM",
  full: "whole layers",
};
const SCHEDULES = {
  "1f1b": "1F1B",
  gpipe: "GPipe",
  interleaved: "interleaved",
  "zero-bubble": "zero bubble (H1)",
  "zero-bubble-2p": "zero bubble (2p)",
  dualpipe: "DualPipe",
};
const SWITCHES = {
  sp: "sequence parallelism (with tp)",
  overlap_gradients: "gradients move beside backward",
  overlap_parameters: "FSDP gathers one layer ahead",
  overlap_tp: "tp overlaps its GEMMs",
  overlap_pp: "pipeline sends overlap",
};
const OPEN = {
  seq: "the model's",
  "layout.global_batch": "one each",
  "layout.micro_batch": "chosen",
  "layout.shard_degree": "all",
  gpus_per_node: "all",
};
const ON = ["overlap_gradients", "overlap_parameters", "overlap_pp"];
let known = null;

/** Draw the form into the element `run`; resolves when the catalogue is there. */
export async function runForm() {
  const place = at("run");
  known = await ask("options");
  put(
    place,
    h(
      "button",
      { class: "run-line", type: "button", "aria-expanded": "false", onclick: opened },
      h("span", { id: "run-line" }),
      h("span", { "aria-hidden": "true" }, "change ▾"),
    ),
    form(),
    pasteDialog(),
  );
  state.heard(shown);
  shown();
}

function form() {
  return h(
    "form",
    { class: "run-form panel", "aria-label": "The run", onsubmit: (event) => event.preventDefault() },
    named("model", "Model", known.models),
    named("cluster", "Cluster", known.clusters),
    nodes(),
    h("div", { class: "pair" }, number("layout.global_batch", "Batch (sequences)"), number("seq", "Sequence (tokens)")),
    h("div", { class: "pair" }, number("layout.tp", "tp: tensor", POWERS), number("layout.pp", "pp: pipeline", POWERS)),
    h("div", { class: "pair" }, number("layout.cp", "cp: context", POWERS), number("layout.ep", "ep: experts", POWERS)),
    choice("layout.shard", "Data parallel", SHARDS),
    h(
      "div",
      { class: "pair" },
      number("layout.micro_batch", "Micro batch", POWERS),
      choice("layout.recompute", "Recompute", RECOMPUTE, "chosen"),
    ),
    more(),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => at("paste").showModal() }, "Paste config or run file"),
      h("button", { type: "button", class: "quiet", onclick: () => state.setRun(state.FIRST) }, "Start over"),
    ),
    h("div", { id: "faults", role: "alert" }),
  );
}

function more() {
  const precisions = Object.fromEntries(known.precisions.map((name) => [name, name]));
  const frameworks = Object.fromEntries(known.frameworks.map(({ name, title }) => [name, title ?? name]));
  return h(
    "details",
    { id: "more" },
    h("summary", {}, "More"),
    h(
      "div",
      { class: "run-form" },
      h(
        "div",
        { class: "pair" },
        choice("layout.precision", "Precision", precisions, "bf16"),
        choice("layout.gradient_dtype", "Gradients in", precisions, "fp32"),
      ),
      h(
        "div",
        { class: "pair" },
        choice("layout.schedule", "Schedule", SCHEDULES, "1F1B"),
        number("layout.virtual_stages", "Chunks a rank", POWERS),
      ),
      h(
        "div",
        { class: "pair" },
        number("layout.shard_degree", "Shard degree"),
        number("gpus_per_node", "GPUs a node"),
      ),
      choice("software.framework", "Framework", frameworks, "megatron-core"),
      text("layout.bucket", "DDP bucket", "25 MiB"),
      ...Object.entries(SWITCHES).map(([key, label]) => check(`layout.${key}`, label, ON.includes(key))),
    ),
  );
}

function field(key, label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

function changed(event) {
  const { name } = event.target.closest("[name]");
  state.set({ [name]: event.target.value.trim() }, { lasting: event.type === "change" });
}

function named(key, label, entries) {
  const list = h(
    "datalist",
    { id: `${key}s` },
    entries.map(({ name, title }) => h("option", { value: name }, title ?? name)),
  );
  const control = h("input", {
    name: key,
    list: `${key}s`,
    autocomplete: "off",
    spellcheck: "false",
    onchange: changed,
    onfocus: (event) => event.target.select(),
  });
  return h("div", {}, field(key, label, control), list, h("div", { class: "small quiet", data: { about: key } }));
}

function nodes() {
  const by = (factor) => () => state.set({ nodes: Math.max(1, Math.round(Number(state.get("nodes", 1)) * factor)) });
  return h(
    "div",
    { class: "field" },
    h("label", { for: "nodes" }, "Nodes"),
    h(
      "div",
      { class: "step-by" },
      h("button", { type: "button", "aria-label": "Half the nodes", onclick: by(0.5) }, "÷2"),
      h("input", { id: "nodes", name: "nodes", type: "number", min: 1, onchange: changed, oninput: changed }),
      h("button", { type: "button", "aria-label": "Twice the nodes", onclick: by(2) }, "×2"),
    ),
  );
}

function number(key, label, suggested = null) {
  const list = suggested && `${key}-list`;
  const control = h("input", {
    name: key,
    type: "number",
    min: 1,
    list,
    placeholder: OPEN[key] ?? "1",
    oninput: changed,
    onchange: changed,
  });
  return h(
    "div",
    {},
    field(key, label, control),
    suggested &&
      h(
        "datalist",
        { id: list },
        suggested.map((value) => h("option", { value })),
      ),
  );
}

const text = (key, label, placeholder) => field(key, label, h("input", { name: key, placeholder, onchange: changed }));

function choice(key, label, options, open = null) {
  const first = open === null ? [] : [h("option", { value: "" }, `open (${open})`)];
  const listed = Object.entries(options).map(([value, said]) => h("option", { value }, said));
  return field(key, label, h("select", { name: key, onchange: changed }, first, listed));
}

function check(key, label, isOn) {
  const control = h("input", {
    type: "checkbox",
    name: key,
    data: { on: isOn },
    onchange: (event) => state.set({ [key]: event.target.checked === isOn ? null : event.target.checked }),
  });
  return h("label", { class: "check" }, control, label);
}

function opened(event) {
  const aside = at("run").classList;
  aside.toggle("open");
  event.currentTarget.setAttribute("aria-expanded", aside.contains("open"));
}

/** Bring the controls to what the address says. */
function shown() {
  for (const control of at("run").querySelectorAll("[name]")) {
    const value = state.get(control.name);
    if (control.type === "checkbox") control.checked = value ? value === "true" : control.dataset.on === "true";
    else if (control !== document.activeElement || control.tagName === "SELECT")
      control.value = inPlace(value)
        ? (JSON.parse(value).name ?? "in place")
        : control.tagName === "SELECT" && !value
          ? control.options[0].value
          : value;
  }
  const names = ["model", "cluster"].map((key) =>
    inPlace(state.get(key)) ? (JSON.parse(state.get(key)).name ?? "pasted") : state.get(key),
  );
  at("run-line").textContent = `${names[0]} on ${state.get("nodes", 1)} × ${names[1]}`;
  about(
    "model",
    known.models,
    (entry) =>
      `${(entry.parameters / 1e9).toPrecision(3)} B parameters${entry.active < entry.parameters ? `, ${(entry.active / 1e9).toPrecision(3)} B active` : ""}`,
  );
  about(
    "cluster",
    known.clusters,
    (entry) =>
      `${entry.gpus_per_node} × ${entry.device} a node, ${counted(entry.gpus_per_node * Number(state.get("nodes", 1)))} GPUs`,
  );
}

function about(key, entries, said) {
  const value = state.get(key);
  const entry = entries.find(({ name }) => name === value);
  at("run").querySelector(`[data-about="${key}"]`).textContent = entry
    ? said(entry)
    : inPlace(value)
      ? "pasted, in place"
      : "";
}

function inPlace(text) {
  if (!text.startsWith("{")) return false;
  try {
    return Boolean(JSON.parse(text));
  } catch {
    return false;
  }
}

function pasteDialog() {
  const area = h("textarea", {
    id: "pasted",
    "aria-label": "Text to read",
    spellcheck: "false",
    placeholder: '{"hidden_size": 4096, …}   or   model: llama-3.1-8b\n…',
  });
  const said = h("div", { class: "fault", role: "alert" });
  const take = async () => {
    try {
      const { run } = await ask("paste", { text: area.value });
      const flat = flattened(run);
      if ("cluster" in flat || "nodes" in flat) state.setRun(flat);
      else state.set(flat, { lasting: true });
      at("paste").close();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      said.textContent = error.message;
    }
  };
  const drop = async (event) => {
    event.preventDefault();
    area.value = await (event.dataTransfer.files[0]?.text() ?? "");
  };
  area.addEventListener("drop", drop);
  return h(
    "dialog",
    { id: "paste", "aria-labelledby": "paste-title" },
    h("h2", { id: "paste-title" }, "Paste a model or a run"),
    h(
      "p",
      { class: "quiet" },
      "A Hugging Face config.json, a model of the catalogue's form, or a run file (YAML). A file can be dropped here. It is read on this machine.",
    ),
    area,
    said,
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", class: "main", onclick: take }, "Use it"),
      h("button", { type: "button", onclick: () => at("paste").close() }, "Cancel"),
    ),
  );
}

function flattened(run) {
  const flat = {};
  for (const [key, value] of Object.entries(run)) {
    if (key === "layout" || key === "software")
      for (const [inner, one] of Object.entries(value)) flat[`${key}.${inner}`] = one;
    else flat[key] = typeof value === "object" ? JSON.stringify(value) : value;
  }
  return flat;
}

/** Show, where nothing was stated, what was taken instead. */
export function taken(layout, others = {}) {
  const known = {
    ...Object.fromEntries(Object.entries(layout).map(([key, value]) => [`layout.${key}`, value])),
    ...others,
  };
  for (const control of at("run").querySelectorAll("input[type=number]"))
    control.placeholder = known[control.name] ?? "";
  const open = at("run").querySelector('[name="layout.recompute"] option[value=""]');
  if (open) open.textContent = `open (${RECOMPUTE[layout.recompute] ?? layout.recompute})`;
}

/** Say what is wrong, beside the controls that it is about; nothing clears it. */
export function faults(problems = []) {
  for (const control of at("run").querySelectorAll("[name]")) control.removeAttribute("aria-invalid");
  for (const { where } of problems) {
    const control = at("run").querySelector(
      `[name="${CSS.escape(where)}"], [name="${CSS.escape(where.split(".").slice(0, 2).join("."))}"]`,
    );
    control?.setAttribute("aria-invalid", "true");
  }
  put(
    at("faults"),
    problems.map(({ where, what }) => h("p", { class: "fault" }, where ? `${where}: ${what}` : what)),
  );
}
