// Tables: names of the columns above, a row for each thing below; its first cell is its name.
import { h, isThere } from "./dom.js";
import { term } from "./terms.js";

/** A column of words; the others are of numbers, which stand at the right and never wrap. */
export const words = (name, more = "") => ({ name, class: `words ${more}`.trim() });

/** A name that only those hear who cannot see the table. */
export const unseen = (name) => h("span", { class: "visually-hidden" }, name);

/**
 * A table of `rows`, each a list of cells or `{ cells, ...attributes }`. A cell is its content, or
 * `{ content, ...attributes }`; a column is its name, or `{ name, class }`.
 */
export function table(columns, rows, { isHeadHidden = false, ...attributes } = {}) {
  const known = columns.filter(isThere).map((one) => (isRecord(one) ? one : { name: one }));
  const head = known.map(({ name, ...more }) => h("th", { scope: "col", ...more }, term(name)));
  return h(
    "table",
    attributes,
    h("thead", { class: isHeadHidden && "visually-hidden" }, h("tr", {}, head)),
    h(
      "tbody",
      {},
      rows.filter(isThere).map((one) => row(one, known)),
    ),
  );
}

function row(given, columns) {
  const { cells, ...attributes } = isRecord(given) ? given : { cells: given };
  const made = cells.filter(isThere).map((one, number) => {
    const { content, class: own, ...more } = isRecord(one) ? one : { content: one };
    const kind = [columns[number]?.class, own].filter(Boolean).join(" ");
    return h(number ? "td" : "th", { scope: !number && "row", class: kind || null, ...more }, content);
  });
  return h("tr", attributes, made);
}

const isRecord = (one) => typeof one === "object" && !Array.isArray(one) && !(one instanceof Node);

/** Something that may be wider than the page, and is then scrolled. */
export const wide = (label, content) =>
  h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, content);
