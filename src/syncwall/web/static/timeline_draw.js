// The picture: a canvas with the phases above, one lane a stream, and the time below.
import { drawn, resolved } from "./causes.js";
import { marks } from "./timeline_model.js";

const [BAND, LANE, GAP, AXIS, NARROW] = [20, 26, 8, 24, 520];
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

/** Where things stand on a canvas of this width (CSS pixels). */
export function places(model, width) {
  const above = width < NARROW ? 15 : 0;
  const left = above ? 0 : 100;
  const lanes = model.lanes.map((_, index) => BAND + 4 + index * (LANE + GAP + above) + above);
  return {
    left,
    width: Math.max(width - left, 1),
    lanes,
    above,
    lane: LANE,
    bottom: BAND + 4 + lanes.length * (LANE + GAP + above),
    height: BAND + 4 + lanes.length * (LANE + GAP + above) + AXIS,
  };
}

/** Colours as they are now. */
export function palette(model) {
  const named = Object.fromEntries(
    ["ink", "quiet", "line", "panel", "raised", "accent", "wait"].map((name) => [name, resolved(`--${name}`)]),
  );
  return { ...named, causes: Object.fromEntries(model.causes.map((cause) => [cause, drawn(cause)])) };
}

/** Draw what `view` shows; `cursor` is the interval that is pointed at. */
export function draw(canvas, model, view, colours, cursor) {
  const ratio = window.devicePixelRatio || 1;
  const box = places(model, canvas.clientWidth);
  canvas.style.height = `${box.height}px`;
  const [wide, high] = [Math.round(canvas.clientWidth * ratio), Math.round(box.height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, box.height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  const x = (time) => box.left + ((time - view.from) / view.span) * box.width;
  axis(pen, model, view, box, colours, x);
  pen.save();
  pen.beginPath();
  pen.rect(box.left, 0, box.width, box.height);
  pen.clip();
  phases(pen, model, box, colours, x);
  const hatch = hatched(pen, colours, ratio);
  model.lanes.forEach((lane, index) => intervals(pen, model, view, box, colours, hatch, lane, box.lanes[index], ratio));
  if (cursor) outline(pen, box, colours, x, model.lanes[cursor.lane], cursor);
  pen.restore();
}

function axis(pen, model, view, box, colours, x) {
  pen.textAlign = "center";
  pen.lineWidth = 1;
  for (const { time, text } of marks(view.from / model.perSecond, view.to / model.perSecond, box.width / 95)) {
    const at = Math.round(x(time * model.perSecond)) + 0.5;
    pen.strokeStyle = colours.line;
    pen.beginPath();
    pen.moveTo(at, BAND);
    pen.lineTo(at, box.bottom);
    pen.stroke();
    const half = pen.measureText(text).width / 2;
    pen.fillStyle = colours.quiet;
    pen.fillText(text, Math.min(Math.max(at, box.left + half), box.left + box.width - half), box.bottom + 9);
  }
  pen.textAlign = "left";
  model.lanes.forEach((lane, index) => {
    const top = box.lanes[index];
    pen.fillStyle = colours.raised;
    pen.fillRect(box.left, top, box.width, LANE);
    pen.fillStyle = colours.ink;
    pen.fillText(lane.name, 0, box.above ? top - 8 : top + LANE / 2);
  });
}

function phases(pen, model, box, colours, x) {
  model.answer.phases.forEach((phase, index) => {
    const [left, right] = [Math.max(x(phase.start), box.left), Math.min(x(phase.end), box.left + box.width)];
    if (right <= left) return;
    pen.fillStyle = index % 2 ? colours.line : colours.raised;
    pen.fillRect(left, 1, right - left, BAND - 3);
    pen.strokeStyle = colours.line;
    pen.strokeRect(left + 0.5, 1.5, Math.max(right - left - 1, 0), BAND - 4);
    if (pen.measureText(phase.name).width + 10 > right - left) return;
    pen.fillStyle = colours.ink;
    pen.fillText(phase.name, left + 6, BAND / 2);
  });
}

/** Wide intervals one by one; those that share a pixel as the colour of what takes most of it, as strong as it is full. */
export function intervals(pen, model, view, box, colours, hatch, lane, top, ratio) {
  const scale = (box.width * ratio) / view.span;
  const shares = new Map();
  const plain = (one) => (one.wait ? colours.wait : colours.causes[one.cause]);
  for (let i = model.first(lane, view.from); i < lane.starts.length && lane.starts[i] < view.to; i++) {
    const one = lane.ops[i];
    const start = (Math.max(lane.starts[i], view.from) - view.from) * scale;
    const end = (Math.min(lane.ends[i], view.to) - view.from) * scale;
    if (end - start < 1.5) {
      const pixel = Math.floor(start);
      const here = Math.min(end, pixel + 1) - start;
      add(shares, pixel, plain(one), here);
      if (end - start > here) add(shares, pixel + 1, plain(one), end - start - here);
      continue;
    }
    const [left, width] = [box.left + start / ratio, (end - start) / ratio];
    pen.fillStyle = one.wait ? hatch : plain(one);
    pen.fillRect(left, top, width > 4 ? width - 0.75 : width, box.lane);
    if (width > 34 && box.lane === LANE) label(pen, one.name, left, top, width, plain(one), one.wait && colours.raised);
  }
  for (const [pixel, found] of shares) {
    const [most, whole] = found.reduce(
      ([best, sum], each) => [each[1] > best[1] ? each : best, sum + each[1]],
      [["", 0], 0],
    );
    pen.globalAlpha = Math.min(1, Math.max(whole, 0.2));
    pen.fillStyle = most[0];
    pen.fillRect(box.left + pixel / ratio, top, 1 / ratio, box.lane);
  }
  pen.globalAlpha = 1;
}

function add(shares, pixel, colour, share) {
  const found = shares.get(pixel);
  if (!found) return void shares.set(pixel, [[colour, share]]);
  const same = found.find(([one]) => one === colour);
  if (same) same[1] += share;
  else found.push([colour, share]);
}

function label(pen, text, left, top, width, colour, ground) {
  const size = pen.measureText(text).width;
  if (size + 8 > width) return;
  if (ground) {
    pen.fillStyle = ground;
    pen.fillRect(left + 2, top + 5, size + 6, LANE - 10);
  }
  pen.fillStyle = ground ? colour : onto(colour);
  pen.fillText(text, left + 5, top + LANE / 2 + 0.5);
}

/** Black or white, whichever is read better on a colour. */
function onto(colour) {
  const [r, g, b] = colour.match(/[\d.]+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#10151c" : "#ffffff";
}

function outline(pen, box, colours, x, lane, cursor) {
  const [left, right] = [x(lane.starts[cursor.index]), x(lane.ends[cursor.index])];
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 2;
  pen.strokeRect(left - 1, box.lanes[cursor.lane] - 2, Math.max(right - left + 1, 3), LANE + 4);
}

/** Stripes in the colour of waiting. */
export function hatched(pen, colours, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6 * ratio;
  const small = tile.getContext("2d");
  small.scale(ratio, ratio);
  small.fillStyle = colours.raised;
  small.fillRect(0, 0, 6, 6);
  small.strokeStyle = colours.wait;
  small.lineWidth = 2.6;
  for (const shift of [-6, 0, 6]) {
    small.beginPath();
    small.moveTo(shift - 1, 7);
    small.lineTo(shift + 7, -1);
    small.stroke();
  }
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
