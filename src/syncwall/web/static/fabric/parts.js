// Parts of the drawing that can be broken: buttons with one tab stop for all, and arrow keys between them.
import { hideTip, s, showTip } from "../dom.js";

const ROWS = ["core", "spine", "link", "leaf", "nic", "node"];
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** A group that breaks or mends a part; `where` is its middle, for the arrow keys. */
export function part({ id, label, tip, failed, dead, where }, ...shapes) {
  const kind = id.split(":")[0];
  return s(
    "g",
    {
      class: `part ${kind}${failed ? " failed" : ""}${dead ? " dead" : ""}`,
      role: "button",
      tabindex: -1,
      "aria-label": label,
      "aria-pressed": String(Boolean(failed)),
      data: { part: id, row: ROWS.indexOf(kind), x: where[0], y: where[1], tip },
    },
    ...shapes,
  );
}

/** Listeners of a drawing; `pressed(id)` hears what is to be broken or mended. */
export function listen(drawing, pressed) {
  const found = (event) => event.target.closest("[data-part]");
  drawing.addEventListener("click", (event) => found(event) && pressed(found(event).dataset.part));
  drawing.addEventListener("keydown", (event) => moved(drawing, event, pressed));
  drawing.addEventListener("pointermove", (event) =>
    found(event) ? showTip(found(event).dataset.tip, event) : hideTip(),
  );
  drawing.addEventListener("pointerleave", hideTip);
  drawing.addEventListener("focusin", (event) => {
    const here = found(event);
    if (!here) return;
    enter(drawing, here);
    if (here.matches(":focus-visible")) showTip(here.dataset.tip, { target: here });
  });
  drawing.addEventListener("focusout", hideTip);
}

/** Give the tab stop to the part `id`, or to the first leaf, and the focus too if asked. */
export function stopAt(drawing, id, focus) {
  const here =
    (id && drawing.querySelector(`[data-part="${CSS.escape(id)}"]`)) ??
    drawing.querySelector(".leaf") ??
    drawing.querySelector("[data-part]");
  if (!here) return;
  enter(drawing, here);
  if (focus) here.focus({ preventScroll: true });
}

function enter(drawing, here) {
  for (const old of drawing.querySelectorAll('[data-part][tabindex="0"]')) old.setAttribute("tabindex", -1);
  here.setAttribute("tabindex", 0);
}

function moved(drawing, event, pressed) {
  const here = event.target.closest("[data-part]");
  if (!here) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    pressed(here.dataset.part);
    return;
  }
  const next = KEYS[event.key] ? beside(drawing, here, ...KEYS[event.key]) : atEnd(drawing, here, event.key);
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

const row = (drawing, number) =>
  [...drawing.querySelectorAll(`[data-row="${number}"]`)].sort(
    (a, b) => a.dataset.x - b.dataset.x || a.dataset.y - b.dataset.y,
  );

function beside(drawing, here, across, down) {
  const mine = Number(here.dataset.row);
  if (across) {
    const same = row(drawing, mine);
    return same[same.indexOf(here) + across];
  }
  for (let number = mine + down; number >= 0 && number < ROWS.length; number += down) {
    const others = row(drawing, number);
    if (others.length)
      return others.reduce((best, one) =>
        Math.abs(one.dataset.x - here.dataset.x) < Math.abs(best.dataset.x - here.dataset.x) ? one : best,
      );
  }
  return null;
}

function atEnd(drawing, here, key) {
  if (key !== "Home" && key !== "End") return null;
  return row(drawing, here.dataset.row).at(key === "Home" ? 0 : -1);
}
