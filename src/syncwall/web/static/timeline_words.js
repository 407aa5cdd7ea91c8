// What is said about one interval.
import { moved } from "./causes.js";
import { duration, percent, prefixed } from "./format.js";

/** Name, place and time in one line, for the line below the picture and for screen readers. */
export function inShort(model, lane, index) {
  const one = lane.ops[index];
  return `${one.name}, ${place(one, lane.layers[index])}; ${one.wait ? one.cause : moved(one.cause)}; ${when(model, lane, index)}`;
}

/** Everything that is known, for the tip. */
export function inFull(model, lane, index) {
  const one = lane.ops[index];
  const lines = [`${one.name} · ${place(one, lane.layers[index])}`, booked(one), when(model, lane, index)];
  if (one.wait) return [...lines, ...one.notes].join("\n");
  const { formula, source } = model.answer.priced[one.priced];
  return [...lines, one.shape, amounts(one), `Formula: ${formula}`, `Source: ${source}`].join("\n");
}

function booked(one) {
  if (one.wait) return `computation waits: ${one.cause} in the ledger`;
  return one.stream === "compute"
    ? `${one.cause} in the ledger`
    : `${one.cause} in the ledger, as far as computation waits for it`;
}

function place(one, layer) {
  const phase = one.phase === "finish" ? "after the last micro batch" : one.phase;
  const block = one.layers > 1 ? `${one.block} ${layer} of ${one.layers}` : one.block;
  return block === one.name ? phase : `${block}, ${phase}`;
}

function when(model, lane, index) {
  const one = lane.ops[index];
  const seconds = (lane.ends[index] - lane.starts[index]) / model.perSecond;
  const begun = `starts at ${exact(lane.starts[index] / model.perSecond)}, takes ${duration(seconds)}`;
  if (one.wait || seconds < one.seconds * 1.005) return begun;
  const why = lane.stream === "compute" ? "communication runs beside it" : "it shares its links";
  return `${begun} (alone ${duration(one.seconds)}: ${why})`;
}

/** A moment, to a microsecond. */
function exact(seconds) {
  return seconds >= 1 ? `${seconds.toFixed(4)} s` : `${(seconds * 1e3).toFixed(3)} ms`;
}

function amounts(one) {
  const said = [];
  if (one.flops) said.push(prefixed(one.flops, "FLOP"));
  if (one.hbm_bytes) said.push(`${prefixed(one.hbm_bytes, "B")} of memory traffic`);
  if (one.sent_bytes) said.push(`${prefixed(one.sent_bytes, "B")} sent by each rank`);
  const [unit, ...rest] = one.rate_unit.split(" ");
  const share = one.of_peak === null ? "" : ` (${percent(one.of_peak, 0)} of the peak)`;
  said.push(`reaches ${[prefixed(one.rate, unit), ...rest].join(" ")}${share}`);
  return said.join(", ");
}
