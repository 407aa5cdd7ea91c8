// Which runs are shown; every choice stands in the address.
import { at, h, put } from "../dom.js";
import { together } from "../form.js";
import * as state from "../state.js";

/** Bring the filters for `runs` to life. */
export function filters(runs) {
  for (const key of ["source", "part", "device"]) {
    const counts = [...Map.groupBy(runs, (run) => run[key])].sort(([a], [b]) => a.localeCompare(b, "en"));
    const options = counts.map(([value, mine]) => h("option", { value }, `${value} (${mine.length})`));
    at("filters")
      .querySelector(`[name="accuracy.${key}"]`)
      .append(...options);
  }
  put(at("doubtful"), `also those in doubt (${runs.filter((run) => run.doubt).length})`);
  at("show-all").addEventListener("click", () =>
    state.set(Object.fromEntries(Object.keys(state.under("accuracy.")).map((key) => [`accuracy.${key}`, null]))),
  );
  together(at("filters"));
}
