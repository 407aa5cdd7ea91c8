// The whole micro batch as a small picture under the timeline, with a frame around what is shown.
import { h } from "./dom.js";
import { hatched, intervals, places } from "./timeline_draw.js";

const [STRIP, GAP, EDGE] = [6, 1, 3];

/** `go(time)` is called with the middle of the window that a hand asks for. */
export class Minimap {
  #whole = null; // the picture without its frame, and what it was drawn of

  constructor(go) {
    this.canvas = h("canvas", { class: "timeline-map", role: "img", "aria-label": "The whole micro batch" });
    const moved = (event) => {
      if (!event.buttons || !this.model) return;
      const { left, width } = places(this.model, this.canvas.clientWidth);
      go(((event.clientX - this.canvas.getBoundingClientRect().left - left) / width) * this.model.end);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      moved(event);
    });
    this.canvas.addEventListener("pointermove", moved);
  }

  draw(model, view, colours) {
    this.model = model;
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const { left, width } = places(model, canvas.clientWidth);
    const height = model.lanes.length * (STRIP + GAP) + 2 * EDGE;
    canvas.style.height = `${height}px`;
    const [wide, high] = [Math.round(canvas.clientWidth * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.drawImage(this.#drawn(model, colours, { left, width, wide, high, ratio }), 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = (time) => left + (time / model.end) * width;
    const [from, to] = [x(view.from), Math.max(x(view.to), x(view.from) + 3)];
    pen.fillStyle = colours.panel;
    pen.globalAlpha = 0.35;
    pen.fillRect(left, 0, from - left, height);
    pen.fillRect(to, 0, left + width - to, height);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(from + 1, 1, Math.max(to - from - 2, 1), height - 2);
    Object.assign(canvas.dataset, { from: from - left, to: to - left, width });
  }

  #drawn(model, colours, size) {
    const { left, width, wide, high, ratio } = size;
    const key = [wide, high, left];
    const known = this.#whole;
    if (known?.model === model && known.colours === colours && `${known.key}` === `${key}`) return known.picture;
    const picture = Object.assign(document.createElement("canvas"), { width: wide, height: high });
    const pen = picture.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const view = { from: 0, to: model.end, span: model.end };
    const hatch = hatched(pen, colours, ratio);
    model.lanes.forEach((lane, index) => {
      const top = EDGE + index * (STRIP + GAP);
      pen.fillStyle = colours.raised;
      pen.fillRect(left, top, width, STRIP);
      intervals(pen, model, view, { left, width, lane: STRIP }, colours, hatch, lane, top, ratio);
    });
    this.#whole = { model, colours, key, picture };
    return picture;
  }
}
