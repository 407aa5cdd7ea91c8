// Wheel, pointers and keys on the timeline.

const [KEY_PAN, KEY_ZOOM, WHEEL, PASSING_MS, STILL] = [0.15, 0.6, 0.0022, 400, 5];
let elsewhere = -Infinity;
addEventListener(
  "wheel",
  (event) => {
    if (!event.target.closest?.(".timeline")) elsewhere = performance.now();
  },
  { passive: true, capture: true },
);

/**
 * Listen on `canvas`. `hands` has `view`, `time(event)`, `moved()` (the window has changed),
 * `point(event, chosen)`, `leave()`, `step(by)`, `lane(by)`, `enter()` and `escape()`.
 */
export function listen(canvas, hands) {
  wheel(canvas, hands);
  pointers(canvas, hands);
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const done = KEYS[event.key];
    if (!done) return;
    event.preventDefault();
    done(hands);
  });
}

const changed = (change) => (hands) => {
  change(hands.view);
  hands.moved();
};
const KEYS = {
  ArrowLeft: changed((view) => view.pan(-KEY_PAN)),
  ArrowRight: changed((view) => view.pan(KEY_PAN)),
  "+": (hands) => hands.zoom(KEY_ZOOM),
  "=": (hands) => hands.zoom(KEY_ZOOM),
  "-": (hands) => hands.zoom(1 / KEY_ZOOM),
  Home: changed((view) => view.show(0, view.end)),
  "]": (hands) => hands.step(1),
  "[": (hands) => hands.step(-1),
  ArrowDown: (hands) => hands.lane(1),
  ArrowUp: (hands) => hands.lane(-1),
  Enter: (hands) => hands.enter(),
  Escape: (hands) => hands.escape(),
};

/** A page that is being scrolled goes on scrolling; a wheel that begins here zooms, sideways it pans. */
function wheel(canvas, hands) {
  canvas.addEventListener(
    "wheel",
    (event) => {
      const { view } = hands;
      const now = performance.now();
      if (now - elsewhere < PASSING_MS && !event.ctrlKey) {
        elsewhere = now;
        return;
      }
      const scale = event.deltaMode === 1 ? 16 : 1;
      const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        if (view.whole) return;
        view.pan((sideways * scale) / canvas.clientWidth);
      } else {
        if (view.whole && event.deltaY > 0) return;
        view.zoom(Math.exp(event.deltaY * scale * WHEEL * (event.ctrlKey ? 4 : 1)), hands.time(event));
      }
      event.preventDefault();
      hands.moved();
    },
    { passive: false },
  );
}

/** One finger or the mouse drags, two fingers pinch, a tap or a click chooses. */
function pointers(canvas, hands) {
  const down = new Map();
  let far = false;
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, event);
    far = down.size > 1;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return hands.point(event, false);
    if (!far && Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) < STILL) return;
    far = true;
    hands.leave();
    const { view } = hands;
    if (down.size === 1) view.pan((before.clientX - event.clientX) / hands.width());
    else pinch(view, down, before, event, hands);
    down.set(event.pointerId, event);
    hands.moved();
  });
  const up = (event) => {
    const chosen = down.delete(event.pointerId) && !far && event.type === "pointerup";
    if (chosen) hands.point(event, true);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") hands.leave();
  });
}

/** What was under both fingers stays under them. */
function pinch(view, down, before, event, hands) {
  const other = [...down.values()].find((one) => one.pointerId !== event.pointerId);
  const apart = (one) => Math.max(Math.abs(one.clientX - other.clientX), 12);
  view.zoom(apart(before) / apart(event), hands.time({ clientX: (event.clientX + other.clientX) / 2 }));
  view.pan((before.clientX - event.clientX) / 2 / hands.width());
}
