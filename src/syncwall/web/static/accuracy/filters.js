// Which runs are shown; every choice stands in the address.
import { at, h, put, quiet } from "../dom.js";
import { check, field, input, select, together } from "../form.js";
import * as state from "../state.js";

/** Draw the filters for `runs`. */
export function filters(runs, parts) {
  const several = (key) => [...new Set(runs.map((run) => run[key]))].sort();
  const count = (key, value) => runs.filter((run) => run[key] === value).length;
  const choice = (key, label, values) => {
    const listed = Object.fromEntries(values.map((value) => [value, `${value} (${count(key, value)})`]));
    return field(label, select(`accuracy.${key}`, { "": "all", ...listed }));
  };
  const all = () =>
    state.set(Object.fromEntries(Object.keys(state.under("accuracy.")).map((key) => [`accuracy.${key}`, null])));
  put(
    at("filters"),
    input("accuracy.model", "Model, framework or id", "llama", { type: "search", data: { live: "" } }),
    choice("source", "Source", several("source")),
    choice(
      "part",
      "Used for",
      parts.filter((part) => count("part", part)),
    ),
    choice("device", "GPU", several("device")),
    check("accuracy.alike", "only those most like my run"),
    check("accuracy.doubtful", `also those in doubt (${runs.filter((run) => run.doubt).length})`),
    h("button", { type: "button", class: "quiet", onclick: all }, "Show all"),
    quiet(
      "Held out: no fit has read it. Calibration: a fit has. Composed: put together from a few times, not measured as a whole. In doubt: the source contradicts itself, or its twins.",
    ),
  );
  together(at("filters"));
}
