// How much of the time around a moment something stands still. Short waits that follow each other
// quickly are shown as a share, never as flashes.

const WINDOW = 1 / 24; // of the film: half a second at speed 1

/** Share of the time around `t` that lies in `gaps` ([start, end]), for a film of `span` seconds. */
export function stillShare(gaps, t, span) {
  const from = Math.max(0, t - (span * WINDOW) / 2);
  const to = Math.min(span, from + span * WINDOW);
  let still = 0;
  for (const [start, end] of gaps) {
    if (start > to) break;
    if (end > from) still += Math.min(end, to) - Math.max(start, from);
  }
  return still / (to - from);
}

/** True for a wait long enough to be seen by itself. */
export const isLong = (start, end, span) => end - start > span * WINDOW;

/** Let a card glow as much as it waits. */
export function glowing(glow, share) {
  glow.style.opacity = share < 0.05 ? 0 : Math.min(1, share + 0.15);
}
