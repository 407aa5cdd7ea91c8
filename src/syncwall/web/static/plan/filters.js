// Which of the best layouts are listed: only those with some value in a column.
import { at, h, put } from "../dom.js";
import { inline, select } from "../form.js";
import * as state from "../state.js";
import { cell, chosenRows, layoutColumns, ranked } from "./table.js";

/** Draw a choice for every column in which the rows of `answer` differ. */
export function filters(answer) {
  const rows = ranked(answer).filter(([rank]) => rank !== "yours");
  const made = layoutColumns(rows).flatMap((name) => {
    const values = [...new Set(rows.map(([, row]) => cell(row, name)))];
    if (values.length < 2) return [];
    values.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return [inline(name, choice(name, values))];
  });
  const shown = chosenRows(answer).filter(([rank]) => rank !== "yours").length;
  const focused = document.activeElement?.name;
  put(
    at("filters"),
    made,
    h("span", { class: "quiet small" }, shown < rows.length && `${shown} of ${rows.length} shown`),
  );
  if (focused)
    at("filters")
      .querySelector(`[name="${CSS.escape(focused)}"]`)
      ?.focus();
}

function choice(name, values) {
  const key = `plan.only.${name}`;
  const offered = Object.fromEntries(values.map((value) => [value || " ", value || "none"]));
  const control = select(key, { "": "any", ...offered });
  control.value = state.get(key);
  control.addEventListener("change", () => state.set({ [key]: control.value }));
  return control;
}
