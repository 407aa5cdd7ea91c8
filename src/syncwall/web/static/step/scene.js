// The picture of a film: an SVG with a name for those who cannot see it.
import { s } from "../dom.js";

/** A picture of this size that holds `children`. */
export function sceneOf(width, height, label, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return s("svg", { class: "scene", ...size, role: "img", "aria-label": label }, ...children);
}
