// Numbers as text, in the words of syncwall.show.numbers: three figures, "13%", "µs", one minus sign.

const BRIEF = Object.entries({ s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 });
const LONG_S = 1000;
const SPANS = [
  [172800, 86400, "days"],
  [7200, 3600, "h"],
  [120, 60, "min"],
];
const PREFIXES = Object.entries({ E: 1e18, P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3, "": 1 });

const minus = (text) => text.replace(/^-/, "−");
const plus = (value, text) => (value >= 0 ? "+" : "−") + text;

/** The first of `steps` that `value` reaches, or the smallest: its name and its size. */
const reached = (steps, value) => steps.find(([, size]) => Math.abs(value) >= size) ?? steps.at(-1);

/** A number to `digits` figures, without trailing zeros. */
export function figures(value, digits = 3) {
  const rounded = Number(value.toPrecision(digits));
  return minus(Math.abs(rounded) >= 10 ** digits ? rounded.toLocaleString("en-US") : String(rounded));
}

/** Seconds: 9.84 s, 12.3 ms; long ones in minutes, hours or days. */
export function duration(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds >= LONG_S && Number.isFinite(seconds)) {
    const [, size, unit] = SPANS.find(([least]) => seconds >= least);
    const count = seconds / size;
    return `${count >= 99.95 ? Math.round(count).toLocaleString("en-US") : figures(count)} ${unit}`;
  }
  const [unit, size] = reached(BRIEF, seconds);
  return `${figures(seconds / size)} ${unit}`;
}

/** With a decimal prefix: 61.2 GB, 989 TFLOP/s. */
export function prefixed(value, unit) {
  const [prefix, size] = reached(PREFIXES, value);
  return `${figures(value / size)} ${prefix}${unit}`;
}

/** Memory in GB of 1e9 bytes, to a tenth. */
export const gigabytes = (bytes) => `${tenth(bytes / 1e9)} GB`;
const tenth = (value) => value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** A share: 38.9%. */
export const percent = (share, digits = 1) => minus(`${(100 * share).toFixed(digits)}%`);

/** A difference as a share: +1.2%, −3.0%. */
export const signedPercent = (share, digits = 1) => plus(share, percent(Math.abs(share), digits));

/** A count with separators. */
export const counted = (value) => minus(Math.round(value).toLocaleString("en-US"));

/** A count of things: 1 node, 2,048 nodes. */
export const plural = (count, one, many = `${one}s`) => `${counted(count)} ${count === 1 ? one : many}`;
