// Numbers as text, in the words of syncwall.show.numbers: three figures, "13%", "µs", one minus sign.

const BRIEF = Object.entries({ s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 });
const LONG = Object.entries({ days: 86400, h: 3600, min: 60, s: 0 });
const PREFIXES = Object.entries({ E: 1e18, P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3, "": 1 });
const LARGE = Object.entries({ B: 1e9, M: 1e6, k: 1e3, "": 1 });

const minus = (text) => text.replace(/^-/, "−");
const plus = (value, text) => (value >= 0 ? "+" : "−") + text;

/** The first of `steps` that `value` reaches, or the smallest: its name and its size. */
const reached = (steps, value) => steps.find(([, size]) => Math.abs(value) >= size) ?? steps.at(-1);

/** A number to `digits` figures, without trailing zeros. */
export function figures(value, digits = 3) {
  const rounded = Number(value.toPrecision(digits));
  return minus(Math.abs(rounded) >= 10 ** digits ? rounded.toLocaleString("en-US") : String(rounded));
}

/** Seconds: 9.84 s, 12.3 ms. */
export function duration(seconds) {
  if (seconds === 0) return "0 s";
  const [unit, size] = reached(BRIEF, seconds);
  return `${figures(seconds / size)} ${unit}`;
}

/** Long times: 54.2 days, 3.1 h, 40 s. */
export function span(seconds) {
  const [unit, size] = reached(LONG, seconds / 2);
  return `${short(seconds / (size || 1))} ${unit}`;
}

/** Three figures, or all of them before the point. */
const short = (value) => (Math.abs(value) >= 99.95 ? counted(value) : figures(value));

/** With a decimal prefix: 61.2 GB, 989 TFLOP/s. */
export function prefixed(value, unit) {
  const [prefix, size] = reached(PREFIXES, value);
  return `${figures(value / size)} ${prefix}${unit}`;
}

/** Kilograms as such, or in tonnes. */
export const mass = (kilograms) => (kilograms >= 1e3 ? `${figures(kilograms / 1e3)} t` : `${figures(kilograms)} kg`);

/** Memory in GB of 1e9 bytes, to a tenth. */
export const gigabytes = (bytes) => `${tenth(bytes / 1e9)} GB`;
const tenth = (value) => value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** The memory of a device, in the unit of what fills it and in the one that it is sold by. */
export const deviceMemory = (bytes) =>
  gigabytes(bytes) + (bytes % 2 ** 30 === 0 ? ` (${counted(bytes / 2 ** 30)} GiB)` : "");

/** A share: 38.9%. */
export const percent = (share, digits = 1) => minus(`${(100 * share).toFixed(digits)}%`);

/** A difference as a share: +1.2%, −3.0%. */
export const signedPercent = (share, digits = 1) => plus(share, percent(Math.abs(share), digits));

/** A difference, as `text` writes it: +1.2 s, −300 ms. */
export const signed = (value, text = duration) => plus(value, text(Math.abs(value)));

/** A large number: 319,000, 1.98M. */
export function many(value) {
  const [letter, size] = reached(LARGE, value);
  return size > 1e3 ? `${figures(value / size)}${letter}` : figures(value);
}

/** A count with separators. */
export const counted = (value) => minus(Math.round(value).toLocaleString("en-US"));

/** A count of things: 1 node, 2,048 nodes. */
export const plural = (count, one, many = `${one}s`) => `${counted(count)} ${count === 1 ? one : many}`;

/** Money. */
export function money(usd) {
  const [letter, size] = reached(LARGE, usd);
  return letter ? `$${short(usd / size)}${letter}` : `$${usd.toFixed(2)}`;
}
