// The picture of a film: an SVG with a name for those who cannot see it, and cards that do something.
import { s } from "../dom.js";

const TIGHT = 100; // pixels under which a card says less

/** A picture of this size that holds `children`. */
export function sceneOf(width, height, label, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return s("svg", { class: "scene", ...size, role: "img", "aria-label": label }, ...children);
}

/** Set attributes of an element. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

/** A card with a name, `lines` to write on below it, `parts` inside, and a glow while it waits. */
export function card({ x, y, width, height }, { name, isLate, lines = 1, data }, ...parts) {
  const isTight = width < TIGHT;
  const left = x + (isTight ? 5 : 8);
  const text = (line, more) => s("text", { x: left, y: y + 18 + line * 17, ...more });
  const box = (kind) => s("rect", { class: kind, x, y, width, height, rx: 7 });
  const label = text(0, { class: isLate && "late" });
  label.textContent = name;
  const written = Array.from({ length: lines }, (_, line) => text(line + 1, { class: !line && "strong" }));
  const glow = box("glow");
  const group = s("g", { class: isTight && "tight", data }, box("card"), label, written, parts, glow);
  return { group, lines: written, glow };
}
