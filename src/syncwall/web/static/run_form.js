// The run at the left of a page: what is trained, on what, and how it is spread.
import { ask } from "./ask.js";
import { at, h, put } from "./dom.js";
import { counted } from "./format.js";
import { pasteDialog } from "./paste.js";
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
  "zero-bubble-v": "zero bubble (V)",
  "dualpipe-v": "DualPipeV",
};
const OVERLAPS = {
  overlap_gradients: "Gradients move beside backward",
  overlap_parameters: "FSDP gathers one layer ahead",
  overlap_tp: "tp overlaps its GEMMs",
  overlap_pp: "Pipeline sends overlap",
};
const TRUTHS = { true: "yes", false: "no" };
const FOLLOWS = "as the framework does";
const OPEN = {
  seq: "the model's",
  "layout.global_batch": "one each",
  "layout.micro_batch": "chosen",
  "layout.shard_degree": "all",
  gpus_per_node: "all",
};
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
    choice("layout.shard", "Data parallel", SHARDS, "chosen"),
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
        choice("layout.gradient_dtype", "Gradients in", precisions, FOLLOWS),
      ),
      h(
        "div",
        { class: "pair" },
        choice("layout.schedule", "Schedule", SCHEDULES, "chosen"),
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
      ...Object.entries(OVERLAPS).map(([key, label]) => choice(`layout.${key}`, label, TRUTHS, FOLLOWS)),
      check("layout.sp", "sequence parallelism (with tp)"),
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
  const by = (factor) => () => {
    const key = state.get("gpus") ? "gpus" : "nodes";
    state.set({ [key]: Math.max(1, Math.round(Number(state.get(key, 1)) * factor)) });
  };
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

function check(key, label) {
  const control = h("input", {
    type: "checkbox",
    name: key,
    onchange: (event) => state.set({ [key]: event.target.checked || null }),
  });
  return h("label", { class: "check" }, control, label);
}

function opened(event) {
  const aside = at("run").classList;
  aside.toggle("open");
  event.currentTarget.setAttribute("aria-expanded", aside.contains("open"));
}

/** Nodes that the address means, if it says so by its GPUs, too. */
export function nodesUsed() {
  const gpus = Number(state.get("gpus", 0));
  if (state.get("nodes") || !gpus) return Number(state.get("nodes", 1));
  const cluster = state.get("cluster");
  const entry = inPlace(cluster) ? JSON.parse(cluster).node : known.clusters.find(({ name }) => name === cluster);
  const each = Number(state.get("gpus_per_node")) || (entry?.gpus_per_node ?? entry?.gpus ?? 1);
  return Math.max(1, Math.ceil(gpus / each));
}

/** Bring the controls to what the address says. */
function shown() {
  for (const control of at("run").querySelectorAll("[name]")) {
    const value = control.name === "nodes" && state.get("gpus") ? String(nodesUsed()) : state.get(control.name);
    if (control.type === "checkbox") control.checked = value === "true";
    else if (control.tagName === "SELECT") chosen(control, value);
    else if (control !== document.activeElement)
      control.value = inPlace(value) ? (JSON.parse(value).name ?? "in place") : value;
  }
  const names = ["model", "cluster"].map((key) =>
    inPlace(state.get(key)) ? (JSON.parse(state.get(key)).name ?? "pasted") : state.get(key),
  );
  at("run-line").textContent = `${names[0]} on ${counted(nodesUsed())} × ${names[1]}`;
  about(
    "model",
    known.models,
    (entry) =>
      `${(entry.parameters / 1e9).toPrecision(3)} B parameters${entry.active < entry.parameters ? `, ${(entry.active / 1e9).toPrecision(3)} B active` : ""}`,
  );
  about(
    "cluster",
    known.clusters,
    (entry) => {
      const gpus = Number(state.get("gpus")) || (Number(state.get("gpus_per_node")) || entry.gpus_per_node) * nodesUsed();
      return `${entry.gpus_per_node} × ${entry.device} a node, ${counted(gpus)} GPUs`;
    },
  );
}

/** Show `value` in a list, even one that it does not offer. */
function chosen(control, value) {
  if (![...control.options].some((option) => option.value === value)) control.append(h("option", { value }, value));
  control.value = value;
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

/** Show, where nothing was stated, what was taken instead, and why: two objects with the keys of the address. */
export function taken(values, reasons = {}) {
  for (const control of at("run").querySelectorAll("[name]")) {
    const { name } = control;
    control.title = state.get(name) ? "" : (reasons[name] ?? "");
    if (control.type === "number") control.placeholder = values[name] ?? "";
    if (control.tagName === "SELECT") offeredAsOpen(control, values[name]);
  }
}

function offeredAsOpen(control, value) {
  const open = control.querySelector('option[value=""]');
  if (!open || value === undefined || value === null) return;
  const said = control.querySelector(`option[value="${CSS.escape(String(value))}"]`)?.textContent ?? value;
  open.textContent = `open (${said})`;
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
