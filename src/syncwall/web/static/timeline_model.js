// The intervals of a micro batch by lane, and the window that is looked at.
import { ordered } from "./causes.js";

/** Lanes with sorted arrays; `at` finds an interval, `window` is what is shown (ticks). */
export class Model {
  constructor(answer) {
    Object.assign(this, { answer, end: answer.end, perSecond: answer.ticks_per_s, operations: answer.operations });
    const by = new Map(answer.lanes.map((lane) => [lane.stream, []]));
    answer.op.forEach((op, index) => by.get(answer.operations[op].stream).push(index));
    this.lanes = answer.lanes.map((lane) => this.#lane(lane, by.get(lane.stream)));
    const present = Object.fromEntries(answer.operations.filter((one) => !one.wait).map((one) => [one.cause, 1]));
    this.causes = ordered(present).map(([cause]) => cause);
    this.waits = answer.operations.some((one) => one.wait);
  }

  #lane(lane, indices) {
    const { start, duration, op, layer } = this.answer;
    indices.sort((a, b) => start[a] - start[b]);
    return {
      ...lane,
      starts: Float64Array.from(indices, (i) => start[i]),
      ends: Float64Array.from(indices, (i) => start[i] + duration[i]),
      ops: indices.map((i) => this.operations[op[i]]),
      layers: indices.map((i) => layer[i]),
    };
  }

  /** From when to when the layer in the middle of the forward pass is computed; all where there are no layers. */
  layer() {
    const lane = this.lanes.find(({ stream }) => stream === "compute");
    const isLayer = ({ phase, block }) => phase === "forward" && block.endsWith("layer") && block !== "output layer";
    const places = lane ? lane.ops.flatMap((one, index) => (isLayer(one) ? [index] : [])) : [];
    if (!places.length) return [0, this.end];
    const named = (index) => `${lane.ops[index].block} ${lane.layers[index]}`;
    const every = [...new Set(places.map(named))];
    const middle = every[every.length >> 1];
    const same = places.filter((index) => named(index) === middle);
    const [from, to] = [lane.starts[same[0]], lane.ends[same.at(-1)]];
    const margin = 0.04 * (to - from);
    return [Math.max(from - margin, 0), Math.min(to + margin, this.end)];
  }

  /** The first interval of a lane that ends after `time`. */
  first(lane, time) {
    let [low, high] = [0, lane.ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The interval of a lane at `time`, or the nearest within `slack`; -1 if there is none. */
  at(lane, time, slack = 0) {
    const index = this.first(lane, time);
    if (index < lane.starts.length && lane.starts[index] <= time + slack) return index;
    return index > 0 && lane.ends[index - 1] >= time - slack ? index - 1 : -1;
  }
}

/** The part of the time that is shown. */
export class View {
  constructor(end) {
    this.reset(end);
  }

  reset(end) {
    Object.assign(this, { end, from: 0, to: end, least: Math.min(end, 20) });
  }

  get whole() {
    return this.from <= 0 && this.to >= this.end;
  }

  get span() {
    return this.to - this.from;
  }

  /** Show from `from` to `to`, as far as there is something. */
  show(from, to) {
    const span = Math.min(Math.max(to - from, this.least), this.end);
    this.from = Math.min(Math.max(from, 0), this.end - span);
    this.to = this.from + span;
  }

  /** Show `factor` times as much; `time` stays where it is. */
  zoom(factor, time = (this.from + this.to) / 2) {
    const span = Math.min(Math.max(this.span * factor, this.least), this.end);
    const share = (time - this.from) / this.span;
    this.show(time - share * span, time + (1 - share) * span);
  }

  /** Move by a share of what is shown. */
  pan(share) {
    this.show(this.from + share * this.span, this.to + share * this.span);
  }
}

/** Round times for about `count` marks between `from` and `to` (seconds), with the unit to write them in. */
export function marks(from, to, count) {
  const rough = (to - from) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
  const [scale, unit] = to >= 1 ? [1, "s"] : to >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  const found = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to * (1 + 1e-12); n++) {
    found.push({ time: n * step, text: n === 0 ? `0 ${unit}` : `${((n * step) / scale).toFixed(digits)} ${unit}` });
  }
  return found;
}
