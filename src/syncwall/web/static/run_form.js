// The run at the left of a page: what is trained, on what, and how it is spread.
import { ask } from "./ask.js";
import { at, h, put } from "./dom.js";
import { marked, together } from "./form.js";
import { counted, plural } from "./format.js";
import { openPaste, pasteDialog } from "./paste.js";
import { picker } from "./picker.js";
import * as state from "./state.js";

let known = null;

/** Bring the form of the page to life; resolves to what can be chosen when the catalogue is there. */
export async function runForm() {
  const place = at("run");
  known = await ask("options");
  place.querySelector(".run-line").addEventListener("click", opened);
  put(at("pick-model"), picker("model", "Model", models(), "Not here: paste or drop its config.json …"));
  put(at("pick-cluster"), picker("cluster", "Cluster", clusters(), "Not here: paste or drop a description …"));
  const dtypes = known.precisions.map((name) => ({ name }));
  const listed = {
    "layout.precision": dtypes,
    "layout.gradient_dtype": dtypes,
    "software.framework": known.frameworks,
  };
  for (const [key, entries] of Object.entries(listed))
    place
      .querySelector(`[name="${key}"]`)
      .append(...entries.map(({ name, title }) => h("option", { value: name }, title ?? name)));
  for (const button of place.querySelectorAll("[data-times]"))
    button.addEventListener("click", () => {
      const key = state.get("gpus") ? "gpus" : "nodes";
      state.set({ [key]: Math.max(1, Math.round(Number(state.get(key, 1)) * Number(button.dataset.times))) });
    });
  at("paste-open").addEventListener("click", () => openPaste());
  at("start-over").addEventListener("click", () => state.setRun(state.FIRST));
  for (const name of ["paste-open", "start-over"]) at(name).disabled = false; // until now nothing heard a click
  pasteDialog();
  together(place, (key) => (key === "nodes" && state.get("gpus") ? String(nodesUsed()) : nameOf(state.get(key))));
  state.heard(shown);
  shown();
  return known;
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
