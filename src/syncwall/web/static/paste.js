// A model, a run or settings of a framework that somebody pastes, or drops as a file.
import { ask, newest, Refused } from "./ask.js";
import { at, h, put } from "./dom.js";
import * as state from "./state.js";
import { keyWords } from "./words.js";

const LOOK_MS = 120;
const SHOWN = 24;
let file = "";
let read = null;

/** Show the dialog; with `dropped` what a file holds stands in it. */
export async function openPaste(dropped = null) {
  at("paste").showModal();
  if (dropped) await taken(dropped);
  at("pasted").focus();
}

async function taken(dropped) {
  file = dropped.name;
  at("pasted").value = await dropped.text();
  changed();
}

/** Bring the dialog of the page to life, to be shown by `openPaste`. */
export function pasteDialog() {
  at("pasted").addEventListener("input", () => {
    file = "";
    changed();
  });
  at("pasted").addEventListener("drop", (event) => {
    const dropped = event.dataTransfer.files[0];
    if (!dropped) return;
    event.preventDefault();
    taken(dropped);
  });
  at("paste-use").addEventListener("click", use);
  at("paste-cancel").addEventListener("click", () => at("paste").close());
}

const asked = (signal) =>
  ask("paste", { text: at("pasted").value, name: file, run: state.run() }, signal ? { signal } : {});

function changed() {
  read = null;
  looked();
}

const looked = newest(async (signal) => {
  if (!at("pasted").value.trim()) return put(at("paste-said"));
  await said(() => asked(signal));
}, LOOK_MS);

/** Say what was recognised, or what is wrong, one problem a line. */
async function said(answer) {
  try {
    read = await answer();
    put(at("paste-said"), recognised(read));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const lines = error.problems.map(({ what }) => h("li", {}, what));
    put(at("paste-said"), h("ul", { class: "fault" }, lines));
  }
}

function recognised({ recognised: kind, run, taken: stated, kept, open, notes }) {
  const flat = state.flattened(run);
  const value = (key) => `${keyWords(key).replace(/ \(.*/, "")} ${shortly(flat[key] ?? state.get(key))}`;
  const more = stated.length > SHOWN ? `, and ${stated.length - SHOWN} more` : "";
  const lines = {
    Recognised: kind,
    Taken: stated.length > 0 && stated.slice(0, SHOWN).map(value).join(", ") + more,
    "Kept from this page": kept
      .filter((key) => key !== "layout" && key !== "software")
      .map(value)
      .join(", "),
    "Stays open": open.length > 0 && `${open.map(keyWords).join(", ")}: the fastest that fits is taken`,
    "Read roughly": notes.length > 0 && notes.join("; "),
  };
  const rows = Object.entries(lines).filter(([, text]) => text);
  return h(
    "dl",
    {},
    rows.map(([name, text]) => [h("dt", {}, name), h("dd", { data: { said: name } }, text)]),
  );
}

/** A value in a word or two. */
function shortly(value) {
  if (typeof value === "object" && value !== null) return value.name ?? "in place";
  return String(value).startsWith("{") ? "pasted" : String(value);
}

/** Take what was read into the address. */
async function use() {
  if (!read) await said(() => asked());
  if (!read) return;
  const flat = state.flattened(read.run);
  if (read.whole) state.setRun(flat);
  else state.set(flat, { lasting: true });
  at("paste").close();
}
