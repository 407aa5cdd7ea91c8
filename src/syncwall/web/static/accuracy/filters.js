// Which runs are shown; every choice stands in the address.
import { at, h, put } from "../dom.js";
import * as state from "../state.js";

/** Draw the filters for `runs`. */
export function filters(runs, parts) {
  const several = (key) => [...new Set(runs.map((run) => run[key]))].sort();
  const count = (key, value) => runs.filter((run) => run[key] === value).length;
  const choice = (key, label, values) =>
    field(
      label,
      h(
        "select",
        { name: key, onchange: changed },
        h("option", { value: "" }, "all"),
        values.map((value) => h("option", { value }, `${value} (${count(key, value)})`)),
      ),
    );
  put(
    at("filters"),
    field(
      "Model, framework or id",
      h("input", { name: "model", type: "search", placeholder: "llama", oninput: changed }),
    ),
    choice("source", "Source", several("source")),
    choice(
      "part",
      "Used for",
      parts.filter((part) => count("part", part)),
    ),
    choice("device", "GPU", several("device")),
    h(
      "label",
      { class: "check" },
      h("input", {
        name: "doubtful",
        type: "checkbox",
        onchange: (event) => state.set({ "accuracy.doubtful": event.target.checked ? "true" : null }),
      }),
      `also those in doubt (${runs.filter((run) => run.doubt).length})`,
    ),
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () =>
          state.set(Object.fromEntries(Object.keys(state.under("accuracy.")).map((key) => [`accuracy.${key}`, null]))),
      },
      "Show all",
    ),
    h(
      "p",
      { class: "small quiet" },
      "Held out: no fit has read it. Calibration: a fit has. Composed: put together from a few times, not measured as a whole. In doubt: the source contradicts itself, or its twins.",
    ),
  );
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  state.heard(shown);
  shown();
}

const field = (label, control) => h("label", { class: "field" }, h("span", {}, label), control);
const changed = (event) => state.set({ [`accuracy.${event.target.name}`]: event.target.value });

function shown() {
  for (const control of at("filters").querySelectorAll("[name]")) {
    const value = state.get(`accuracy.${control.name}`);
    if (control.type === "checkbox") control.checked = value === "true";
    else if (control !== document.activeElement || control.tagName === "SELECT") control.value = value;
  }
}
