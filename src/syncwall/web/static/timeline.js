// The last micro batch and the optimizer in time: streams as lanes. Wheel, fingers and keys zoom and
// move; the window is a part of the address (timeline.from and timeline.to, seconds), one layer if not said.
import { colour, moved } from "./causes.js";
import { recoloured } from "./chart.js";
import { h, hideTip, put, showTip, swatch } from "./dom.js";
import { counted, duration } from "./format.js";
import * as state from "./state.js";
import { draw, palette, places } from "./timeline_draw.js";
import { listen } from "./timeline_hands.js";
import { Minimap } from "./timeline_map.js";
import { Model, View } from "./timeline_model.js";
import { inFull, inShort } from "./timeline_words.js";

const HELP = "Wheel or pinch zooms, dragging moves, pointing tells.";
const KEYS = " Keys: + − arrows Home; ] next, [ before, Enter zooms to it.";
const REMEMBER_MS = 250;
let picture = null;

/** The picture of `answer` (operations and intervals); `about` says what it is. */
export function timeline(answer, about) {
  picture ??= new Picture();
  picture.show(answer);
  put(about, said(answer));
  return picture.root;
}

function said(answer) {
  const which =
    answer.microbatches > 1 ? `the last of ${counted(answer.microbatches)} micro batches` : "the only micro batch";
  const rank = answer.pipeline_ranks > 1 ? ` on the last of ${counted(answer.pipeline_ranks)} pipeline ranks` : "";
  return `${which}${rank}: ${duration(answer.end_s)} of a step of ${duration(answer.step_s)}`;
}

/** What the picture cannot show where it happens. */
function noted({ earlier_s }) {
  if (!(earlier_s > 0)) return "";
  return `Gradients are drawn ${duration(earlier_s)} earlier than computed here: those of a rank's other virtual stages leave beside other micro batches. What left before the start is not drawn.`;
}

class Picture {
  #pending = 0;
  #timer = 0;
  #cursor = null;

  constructor() {
    this.view = new View(1);
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label": "Timeline of the micro batch",
      "aria-describedby": "timeline-help",
    });
    this.map = new Minimap((time) => this.window(time - this.view.span / 2, time + this.view.span / 2));
    this.note = h("p", { class: "small quiet timeline-note" });
    this.line = h("p", { class: "small timeline-line", "aria-live": "polite" });
    this.legend = h("div", { class: "legend small", role: "list", "aria-label": "Colours" });
    const button = (text, label, clicked) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick: clicked }, text);
    this.root = h(
      "div",
      { class: "timeline" },
      h(
        "div",
        { class: "row timeline-bar no-print" },
        button("+", "Zoom in", () => this.zoom(0.5)),
        button("−", "Zoom out", () => this.zoom(2)),
        button("One layer", "Show one layer", () => this.window(...this.model.layer())),
        button("Whole", "Show the whole micro batch", () => this.window(0, this.view.end)),
        h("span", { class: "quiet small", id: "timeline-help" }, HELP, h("span", { class: "timeline-keys" }, KEYS)),
      ),
      this.canvas,
      this.map.canvas,
      this.legend,
      this.note,
      this.line,
    );
    listen(this.canvas, this);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.canvas.addEventListener("blur", hideTip);
    addEventListener("scroll", hideTip, { passive: true });
    addEventListener("pointerdown", (event) => {
      if (event.target !== this.canvas) hideTip();
    });
    recoloured(() => this.recolour());
    state.heard((changes) => {
      if ("timeline.from" in changes || "timeline.to" in changes) this.#remembered();
    });
  }

  /** Another answer, in the same window if it has one. */
  show(answer) {
    this.model = new Model(answer);
    this.#cursor = null;
    hideTip();
    this.#remembered();
    put(this.line, "");
    put(this.note, noted(answer));
    this.note.hidden = !(answer.earlier_s > 0);
    put(
      this.legend,
      this.model.causes.map((cause) => h("span", { role: "listitem" }, swatch(colour(cause)), moved(cause))),
      this.model.waits &&
        h("span", { role: "listitem" }, h("span", { class: "swatch timeline-wait" }), "computation waits"),
    );
    Object.assign(this.root.dataset, { intervals: answer.op.length, end: answer.end_s });
    this.recolour();
  }

  /** The window that the address says. */
  #remembered() {
    const { end, perSecond } = this.model;
    const [from, to] = ["from", "to"].map((key) => Number.parseFloat(state.get(`timeline.${key}`, "NaN")) * perSecond);
    this.view.reset(end);
    if (from >= 0 && to > from && from < end) this.view.show(from, Math.min(to, end));
    else this.view.show(...this.model.layer());
    this.redraw();
  }

  /** Show from `from` to `to`. */
  window(from, to) {
    this.view.show(from, to);
    this.moved();
  }

  /** The window has changed: draw it, and put it into the address when it rests. */
  moved() {
    this.redraw();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { from, to } = this.view;
      const [first, last] = this.model.layer();
      const opened = Math.abs(from - first) + Math.abs(to - last) < 1e-3 * (last - first);
      const seconds = (ticks) => (opened ? null : Number((ticks / this.model.perSecond).toFixed(7)));
      state.set({ "timeline.from": seconds(from), "timeline.to": seconds(to) });
    }, REMEMBER_MS);
  }

  recolour() {
    this.colours = palette(this.model);
    this.redraw();
  }

  redraw() {
    if (!this.model || !this.colours) return;
    this.#pending ||= requestAnimationFrame(() => {
      this.#pending = 0;
      if (!this.canvas.clientWidth) return;
      draw(this.canvas, this.model, this.view, this.colours, this.#cursor);
      this.map.draw(this.model, this.view, this.colours);
      const { lanes, left } = places(this.model, this.canvas.clientWidth);
      const tops = Object.fromEntries(this.model.lanes.map((lane, index) => [lane.stream, lanes[index]]));
      Object.assign(this.canvas.dataset, {
        from: this.view.from / this.model.perSecond,
        to: this.view.to / this.model.perSecond,
        left,
        tops: JSON.stringify(tops),
      });
    });
  }

  width() {
    return places(this.model, this.canvas.clientWidth).width;
  }

  /** The time under a pointer. */
  time(event) {
    const { left, width } = places(this.model, this.canvas.clientWidth);
    return (
      this.view.from + ((event.clientX - this.canvas.getBoundingClientRect().left - left) / width) * this.view.span
    );
  }

  /** Say what is under the pointer; `chosen` by a click or a tap it stays marked. */
  point(event, chosen) {
    const box = places(this.model, this.canvas.clientWidth);
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    const lane = box.lanes.findIndex((top) => y >= top && y <= top + box.lane);
    const index =
      lane < 0 ? -1 : this.model.at(this.model.lanes[lane], this.time(event), (2 * this.view.span) / box.width);
    if (chosen) this.#choose(index < 0 ? null : { lane, index });
    if (index < 0) return hideTip();
    showTip(inFull(this.model, this.model.lanes[lane], index), event);
  }

  leave() {
    hideTip();
  }

  zoom(factor) {
    const found = this.#cursor && this.model.lanes[this.#cursor.lane];
    const middle = found ? (found.starts[this.#cursor.index] + found.ends[this.#cursor.index]) / 2 : undefined;
    const seen = middle >= this.view.from && middle <= this.view.to;
    this.view.zoom(factor, seen ? middle : undefined);
    this.moved();
  }

  /** The next interval of the lane, or the one before. */
  step(by) {
    const { lane, index } = this.#cursor ?? {
      lane: 0,
      index: this.model.first(this.model.lanes[0], this.view.from) - by,
    };
    this.#go(lane, index + by);
  }

  /** The interval of another lane at the same time. */
  lane(by) {
    const { lane, index } = this.#cursor ?? { lane: by > 0 ? -1 : 1, index: 0 };
    const next = Math.min(Math.max(lane + by, 0), this.model.lanes.length - 1);
    const time = this.#cursor ? this.model.lanes[lane].starts[index] : this.view.from;
    this.#go(next, this.model.first(this.model.lanes[next], time));
  }

  enter() {
    if (!this.#cursor) return this.step(1);
    const lane = this.model.lanes[this.#cursor.lane];
    const [start, end] = [lane.starts[this.#cursor.index], lane.ends[this.#cursor.index]];
    this.window(start - (end - start), end + (end - start));
    this.#tipAtCursor();
  }

  escape() {
    hideTip();
    this.#choose(null);
  }

  #go(lane, index) {
    const found = this.model.lanes[lane];
    const next = Math.min(Math.max(index, 0), found.starts.length - 1);
    this.#choose({ lane, index: next });
    const middle = (found.starts[next] + found.ends[next]) / 2;
    if (middle < this.view.from || middle > this.view.to)
      this.window(middle - this.view.span / 2, middle + this.view.span / 2);
    this.#tipAtCursor();
  }

  #choose(cursor) {
    this.#cursor = cursor;
    put(this.line, cursor ? inShort(this.model, this.model.lanes[cursor.lane], cursor.index) : "");
    this.redraw();
  }

  #tipAtCursor() {
    const { lane, index } = this.#cursor;
    const found = this.model.lanes[lane];
    const box = places(this.model, this.canvas.clientWidth);
    const where = this.canvas.getBoundingClientRect();
    const share = ((found.starts[index] + found.ends[index]) / 2 - this.view.from) / this.view.span;
    showTip(inFull(this.model, found, index), {
      clientX: where.left + box.left + share * box.width,
      clientY: where.top + box.lanes[lane] + box.lane,
    });
  }
}
