// The address holds the whole state: the keys are those of the command line (`--layout.tp 8` is
// `?layout.tp=8`), so that a link reproduces a page and a page can say its command. What is open stays
// out of it.

/** What a page starts with when its address says nothing. */
export const FIRST = {
  model: "llama-3.1-70b",
  cluster: "dgx-h100",
  nodes: "64",
  "layout.tp": "8",
  "layout.shard": "fsdp",
  "layout.global_batch": "1024",
};
const RUN = /^(model|cluster|nodes|gpus_per_node|gpus|seq|layout\..+|software\..+)$/;
const OPEN = ["", "~", "null"];
const WHOLE = /^[-+]?\d{1,15}$/;
const FLOAT = /^[-+]?(\.\d+|\d+(\.\d*)?)(e[-+]?\d+)?$/i;
const listeners = new Set();
let values = read();

function read() {
  const stated = [...new URLSearchParams(location.search)].filter(([, text]) => !OPEN.includes(text));
  const found = Object.fromEntries(stated);
  return Object.keys(found).some((key) => RUN.test(key)) ? found : { ...FIRST, ...found };
}

/** The text of a key, or `otherwise`. */
export const get = (key, otherwise = "") => values[key] ?? otherwise;

/** All keys that begin with `prefix`, without it. */
export function under(prefix) {
  const found = Object.entries(values).filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(found.map(([key, text]) => [key.slice(prefix.length), text]));
}

/** Change keys (empty, null or undefined: remove) and tell everybody; `lasting` keeps the old state behind the Back button. */
export function set(changes, { lasting = false } = {}) {
  if (changes.nodes) delete values.gpus; // two ways to say the same
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || OPEN.includes(value)) delete values[key];
    else values[key] = written(value);
  }
  history[lasting ? "pushState" : "replaceState"](null, "", `${location.pathname}${query()}`);
  told(changes);
}

/** Take another run: every key of the run is replaced. */
export function setRun(run) {
  values = { ...Object.fromEntries(Object.entries(values).filter(([key]) => !RUN.test(key))) };
  set(run, { lasting: true });
}

/** Be told of changes: `heard(changes)`. */
export function heard(listener) {
  listeners.add(listener);
}

/** The state, or that of other keys, as the query of an address; null takes a key away. */
export function query(only = () => true, stated = values) {
  const kept = Object.entries(stated).filter(([key, text]) => text !== null && only(key));
  const text = new URLSearchParams(kept).toString().replaceAll(/%(2C|3A|3B|24|2F)/g, decodeURIComponent); // , : ; $ / may stay
  return text ? `?${text}` : "";
}

/** The keys of the run, as the address has them. */
export const runKeys = () => Object.fromEntries(Object.entries(values).filter(([key]) => RUN.test(key)));

/** The run as the API takes it; or that of other keys than the address has. */
export function run(stated = values) {
  const asked = { layout: {}, software: {} };
  for (const [key, text] of Object.entries(stated)) {
    if (!RUN.test(key)) continue;
    const [outer, inner] = key.split(/\.(.*)/s);
    if (inner) asked[outer][inner] = scalar(text);
    else asked[key] = key === "model" || key === "cluster" ? entry(text) : scalar(text);
  }
  return asked;
}

/** A run as the API takes it, as keys of the address. */
export function flattened(run) {
  const flat = {};
  for (const [key, value] of Object.entries(run)) {
    if (key === "layout" || key === "software")
      for (const [inner, one] of Object.entries(value)) flat[`${key}.${inner}`] = one;
    else flat[key] = value;
  }
  return flat;
}

/** A value as an address writes it, and a flag: `[tp,dp]` for a list. */
function written(value) {
  if (Array.isArray(value)) return `[${value.join(",")}]`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The command that says the same in a terminal. */
export function command(verb = "predict") {
  const stated = Object.entries(values).filter(([key]) => RUN.test(key));
  return ["syncwall", verb, ...stated.map(([key, text]) => flag(key, text))].join(" ");
}

/** A key as a flag of the command line, quoted for a shell where that is needed. */
export function flag(key, text) {
  const quoted = /^[\w.,:/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  return `--${key.replaceAll("_", "-")} ${quoted}`;
}

/** Text as a run file would read it. */
export function scalar(text) {
  if (text.startsWith("[") && text.endsWith("]"))
    return text
      .slice(1, -1)
      .split(",")
      .map((one) => one.trim())
      .filter(Boolean);
  if (WHOLE.test(text) || FLOAT.test(text)) return Number(text);
  return text === "true" ? true : text === "false" ? false : text;
}

function entry(text) {
  if (!text.startsWith("{")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function told(changes) {
  linked();
  for (const listener of listeners) listener(changes);
}

/** The address of another page with the same run, or with other `keys` in it. */
export const pageWithRun = (page, keys = {}) =>
  (page === "predict" ? "./" : `./${page}`) + query((key) => RUN.test(key), { ...values, ...keys });

/** The address of this page with other `keys`; null takes one away. */
export const addressWith = (keys) => `${location.pathname}${query(undefined, { ...values, ...keys })}`;

/** The address of Predict with another run, as the API takes it. */
export function addressOf(run) {
  const flat = Object.entries(flattened(run)).map(([key, value]) => [key, written(value)]);
  return `./?${new URLSearchParams(flat)}`;
}

/** Links to other pages take the run with them. */
function linked() {
  for (const link of document.querySelectorAll("a[data-page]")) link.href = pageWithRun(link.dataset.page);
}

const here = document.querySelector(".top nav [aria-current]"); // on a phone the pages do not all fit beside each other
if (here)
  here.parentElement.scrollLeft =
    here.offsetLeft - here.parentElement.offsetLeft - (here.parentElement.clientWidth - here.offsetWidth) / 2;
addEventListener("popstate", () => {
  values = read();
  told({});
});
linked();
