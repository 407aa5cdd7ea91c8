// All layouts of a run, searched beside its proposals: what was found before is there at once.
import { ask, follow, Refused } from "../ask.js";
import { h, put } from "../dom.js";
import { duration, percent, signedPercent } from "../format.js";
import { searchOf } from "../plan/question.js";
import * as state from "../state.js";

let running = null;

/** A line that searches, and then says what the best of all layouts takes. */
export function searchHere({ layout, step_s, fits }) {
  const place = h("div", { class: "search-here", "aria-live": "polite" });
  running?.abort();
  const run = state.run();
  run.layout.global_batch ??= layout.global_batch; // a search needs one; here it is the one that was taken
  const asked = searchOf(run);
  const to = (words) =>
    h("a", { href: `${state.pageWithRun("plan")}&layout.global_batch=${run.layout.global_batch}&plan.go=1` }, words);
  const shown = (answer) => put(place, found(answer, run, { step_s, fits }, to("see all of them")));
  const idle = () =>
    put(
      place,
      h("button", { type: "button", class: "main", onclick: go }, "Search all layouts"),
      h("small", {}, "several changes at once: every layout that is possible is looked at"),
    );
  async function go() {
    running = new AbortController();
    const { signal } = running;
    put(place, "looking at all layouts …");
    const told = ({ progress, best, answer }) => {
      if (answer) shown(answer);
      else put(place, `${percent(progress, 0)} looked at`, best ? `; best so far ${best.said}` : "");
    };
    try {
      await follow("plan", asked, told, { signal });
    } catch (error) {
      if (error instanceof Refused) put(place, h("span", { class: "fault" }, error.message));
      else if (error.name !== "AbortError") throw error;
    }
  }
  idle();
  ask("plan/kept", asked)
    .then(({ answer }) => answer && shown(answer))
    .catch((error) => {
      if (!(error instanceof Refused)) throw error;
    });
  return place;
}

function found({ best: [first] }, run, now, all) {
  if (!first) return ["Search all layouts: none fits. ", all];
  const keys = { ...state.flattened({ layout: first.keys }), "layout.global_batch": run.layout.global_batch };
  const apart = now.fits ? ` (${signedPercent(first.step_s / now.step_s - 1, 0)})` : "";
  const pinned = Object.values(first.keys).filter((value) => value !== null).length;
  return [
    h(
      "button",
      {
        type: "button",
        data: { best: first.step_s },
        onclick: () => state.set(keys, { lasting: true }),
      },
      `Search all layouts: ${duration(first.step_s)} a step${apart}`,
    ),
    h("small", {}, `${first.said}; pins ${pinned} fields of the layout. `, all),
  ];
}
