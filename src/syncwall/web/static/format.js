// Numbers as text, as the terminal writes them (syncwall.units.format with three figures).

const SPANS = [
  [86400, "days"],
  [3600, "h"],
  [60, "min"],
];

/** A number to `digits` figures, without trailing zeros. */
export function figures(value, digits = 3) {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  return Math.abs(rounded) >= 10 ** digits ? rounded.toLocaleString("en-US") : String(rounded);
}

/** Seconds: 9.84 s, 12.3 ms. */
export function duration(seconds) {
  if (seconds === 0) return "0 s";
  const size = Math.abs(seconds);
  const [scale, unit] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e-3, "ms"] : size >= 1e-6 ? [1e-6, "us"] : [1e-9, "ns"];
  return `${figures(seconds / scale)} ${unit}`;
}

/** Long times, as syncwall.show.numbers writes them: 54.2 days, 3.1 h, 40 s. */
export function span(seconds) {
  const size = Math.abs(seconds);
  const [scale, unit] = SPANS.find(([one]) => size >= 2 * one) ?? [1, "s"];
  if (size < 1) return duration(seconds);
  return `${size / scale >= 99.95 ? counted(seconds / scale) : figures(seconds / scale)} ${unit}`;
}

const PREFIXES = [
  [1e18, "E"],
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/** With a decimal prefix: 61.2 GB, 989 TFLOP/s. */
export function prefixed(value, unit, digits = 3) {
  const [scale, prefix] = PREFIXES.find(([one]) => Math.abs(value) >= one) ?? [1, ""];
  return `${figures(value / scale, digits)} ${prefix}${unit}`;
}

/** A share: 38.9 %. */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

/** A count with separators. */
export const counted = (value) => Math.round(value).toLocaleString("en-US");

/** Money. */
export function money(usd) {
  const [scale, prefix] = [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([one]) => Math.abs(usd) >= one) ?? [1, ""];
  return `$${figures(usd / scale)}${prefix}`;
}
