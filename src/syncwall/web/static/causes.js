// The lines of a ledger: one order, one colour and one title everywhere. The list is the server's.
import { CAUSES } from "./cause_list.js";

const KNOWN = new Map(CAUSES.map((one, place) => [one.key, { ...one, place }]));

const known = (cause) => KNOWN.get(cause) ?? { colour: "other", place: KNOWN.size };

/** Computation first, waiting last. */
export const ordered = (ledger) => Object.entries(ledger).sort(([a], [b]) => known(a).place - known(b).place);

/** What a colour stands for: communication is exposed only where computation waits for it. */
export const moved = (cause) => known(cause).moved || cause;

/** The colour of a cause, for CSS. */
export const colour = (cause) => `var(--${known(cause).colour})`;

/** The colour of a cause as it is now, for libraries that know no variables. */
export const drawn = (cause) => resolved(`--${known(cause).colour}`);

/** The value of a colour variable as it is now. */
export function resolved(variable) {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
