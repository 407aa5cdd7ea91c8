// The run at the left of a page: what is trained, on what, and how it is spread.
import { ask } from "./ask.js";
import { at, h, put } from "./dom.js";
import { check, field, input, marked, number, pair, select, together } from "./form.js";
import { counted, plural } from "./format.js";
import { openPaste, pasteDialog } from "./paste.js";
import { picker } from "./picker.js";
import * as state from "./state.js";

const POWERS = Object.fromEntries([1, 2, 4, 8, 16, 32, 64].map((value) => [value, value]));
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

/** Draw the form into the element `run`; resolves to what can be chosen when the catalogue is there. */
export async function runForm() {
  const place = at("run");
  known = await ask("options");
  put(
    place,
    h(
      "button",
      { class: "run-line", type: "button", "aria-expanded": "false", onclick: opened },
      h("span", { id: "run-line" }),
      h("span", { class: "nowrap", "aria-hidden": "true" }, "change ▾"),
    ),
    form(),
    pasteDialog(),
  );
  together(place, (key) => (key === "nodes" && state.get("gpus") ? String(nodesUsed()) : nameOf(state.get(key))));
  state.heard(shown);
  shown();
  return known;
}

function form() {
  return h(
    "form",
    { class: "form panel", "aria-label": "The run" },
    named("model", "Model", models(), "Not here: paste or drop its config.json …"),
    named("cluster", "Cluster", clusters(), "Not here: paste or drop a description …"),
    nodes(),
    pair(count("layout.global_batch", "Batch (sequences)"), count("seq", "Sequence (tokens)")),
    pair(count("layout.tp", "tp: tensor", POWERS), count("layout.pp", "pp: pipeline", POWERS)),
    pair(count("layout.cp", "cp: context", POWERS), count("layout.ep", "ep: experts", POWERS)),
    choice("layout.shard", "Data parallel", SHARDS),
    pair(count("layout.micro_batch", "Micro batch", POWERS), choice("layout.recompute", "Recompute", RECOMPUTE)),
    more(),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => openPaste() }, "Paste my config or settings"),
      h("button", { type: "button", class: "quiet", onclick: () => state.setRun(state.FIRST) }, "Start over"),
    ),
    h("div", { id: "faults", role: "alert" }),
  );
}

function more() {
  const precisions = Object.fromEntries(known.precisions.map((name) => [name, name]));
  return h(
    "details",
    { id: "more" },
    h("summary", {}, "More"),
    h(
      "div",
      { class: "form" },
      pair(
        choice("layout.precision", "Precision", precisions, "bf16"),
        choice("layout.gradient_dtype", "Gradients in", precisions, FOLLOWS),
      ),
      pair(
        choice("layout.schedule", "Schedule", SCHEDULES),
        count("layout.virtual_stages", "Virtual stages a rank", POWERS),
      ),
      pair(count("layout.shard_degree", "Shard degree"), count("gpus_per_node", "GPUs a node")),
      choice("software.framework", "Framework", titles(known.frameworks), "megatron-core"),
      input("layout.bucket", "DDP bucket", "25 MiB"),
      Object.entries(OVERLAPS).map(([key, label]) => choice(`layout.${key}`, label, TRUTHS, FOLLOWS)),
      check("layout.sp", "sequence parallelism (with tp)"),
    ),
  );
}

const titles = (entries) => Object.fromEntries(entries.map(({ name, title }) => [name, title ?? name]));

function named(key, label, entries, pasteWords) {
  return h(
    "div",
    {},
    picker(key, label, entries, pasteWords),
    h("div", { class: "small quiet", data: { about: key } }),
  );
}

const billions = (count) => (count >= 1e9 ? `${(count / 1e9).toPrecision(3)} B` : `${(count / 1e6).toPrecision(3)} M`);

const models = () =>
  known.models.map((one) => ({
    ...one,
    group: one.family,
    about: billions(one.parameters) + (one.active < one.parameters ? `, ${billions(one.active)} active` : ""),
    also: one.aliases,
  }));

const clusters = () =>
  known.clusters.map((one) => ({
    ...one,
    group: one.device_title,
    about: `${plural(one.gpus_per_node, "GPU")} a node`,
    also: [one.device, ...one.aliases],
  }));

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
      h("input", { id: "nodes", name: "nodes", type: "number", min: 1, data: { live: "" } }),
      h("button", { type: "button", "aria-label": "Twice the nodes", onclick: by(2) }, "×2"),
    ),
  );
}

const count = (key, label, suggested = null) =>
  number(key, label, OPEN[key] ?? "1", { min: 1, step: null, suggested, data: { live: "" } });

const choice = (key, label, choices, open = "chosen") =>
  field(label, select(key, { "": `open (${open})`, ...choices }));

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

/** The name of an entry that is written in place, or else the text itself. */
const nameOf = (text) => (inPlace(text) ? (JSON.parse(text).name ?? "pasted") : text);

/** Say in a few words what the address says. */
function shown() {
  const [model, cluster] = ["model", "cluster"].map((key) => nameOf(state.get(key)));
  at("run-line").textContent = `${model} on ${counted(nodesUsed())} × ${cluster}`;
  about("model", known.models, ({ parameters, active }) => {
    const [all, some] = [parameters, active].map((one) => (one / 1e9).toPrecision(3));
    return `${all} B parameters${active < parameters ? `, ${some} B active` : ""}`;
  });
  about("cluster", known.clusters, ({ gpus_per_node, device }) => {
    const gpus = Number(state.get("gpus")) || (Number(state.get("gpus_per_node")) || gpus_per_node) * nodesUsed();
    return `${gpus_per_node} × ${device} a node, ${plural(gpus, "GPU")}`;
  });
}

function about(key, entries, said) {
  const value = state.get(key);
  const entry = entries.find(({ name }) => name === value);
  at("run").querySelector(`[data-about="${key}"]`).textContent = entry ? said(entry) : inPlace(value) ? "pasted" : "";
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
export const faults = (problems = []) =>
  marked(at("run"), at("faults"), problems, (where) => [where, where.split(".").slice(0, 2).join(".")]);
