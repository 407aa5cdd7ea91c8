// The frame of a page: what it asks, what is refused, and where both are said.
import { newest, Refused } from "./ask.js";
import { at, put, quiet } from "./dom.js";
import { mended, problemList } from "./problems.js";
import { faults } from "./run_form.js";

/** Say the answer in a sentence; `mood` is good, warn, bad or nothing. */
export function verdict(text, mood = "", why = "") {
  put(at("verdict"), text);
  at("verdict").className = `verdict ${mood}`;
  put(at("why"), why);
}

/** How far long work is. */
export function progress(share) {
  at("bar").setAttribute("aria-valuenow", Math.round(100 * share));
  at("bar").firstElementChild.style.width = `${100 * share}%`;
}

/**
 * A question to ask again whenever something changes: `asked(signal)` asks it and shows the answer.
 * If it is refused, `impossible()` and the reasons take the place of what was shown.
 */
export function answering(asked, { impossible, marked = faults, wait_ms = 0 }) {
  return newest(async (signal) => {
    const place = at("answer").classList;
    place.add("stale");
    try {
      await asked(signal);
      marked();
      place.remove("refused");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      marked(error.problems);
      verdict(`${impossible()}: nothing was computed`, "bad", problemList(error.problems));
      place.add("refused");
      place.remove("stale");
      await mended(signal);
    }
    if (!signal.aborted) place.remove("stale");
  }, wait_ms);
}

/**
 * A smaller question beside it: the element `id` gets what `made(signal)` gives, or the reason why not. What it held
 * before is dimmed as soon as it is asked again.
 */
export function beside(id, made, wait_ms = 150) {
  const asked = newest(async (signal) => {
    try {
      put(at(id), await made(signal));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      put(at(id), quiet(error.message));
    }
    if (!signal.aborted) lags(id, false);
  }, wait_ms);
  return () => {
    lags(id, true);
    asked();
  };
}

/** Dim what belongs to an older question until the new answer is there. */
function lags(id, isOld) {
  at(id).classList.toggle("stale", isOld);
  at(id).setAttribute("aria-busy", String(isOld));
}
