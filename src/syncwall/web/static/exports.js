// Answers as files: a table as CSV, an answer as JSON, a picture as SVG. Nothing is asked of the server for it.
import { download, h } from "./dom.js";

const button = (label, onclick) => h("button", { type: "button", onclick }, label);

/** A button for a table: `rows()` are lists of cells, the names of the columns first. */
export const csvFile = (name, rows, label = "CSV") =>
  button(label, () => download(`${name}.csv`, csv(rows()), "text/csv"));

/** A button for an answer as programs read it. */
export const jsonFile = (name, value, label = "JSON") =>
  button(label, () => download(`${name}.json`, `${JSON.stringify(value(), null, 1)}\n`, "application/json"));

/** A button for a picture: `picture()` gives the text of an SVG, or a promise of it. */
export const svgFile = (name, picture, label = "SVG") =>
  button(label, async () => download(`${name}.svg`, await picture(), "image/svg+xml"));

/** Rows as RFC 4180 has them; text that a spreadsheet would take for a formula stays text. */
const csv = (rows) => `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;

function cell(value) {
  const text = typeof value === "string" && /^[=+@-]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table of the page as rows of text. */
export const tabulated = (table) =>
  [...(table?.rows ?? [])].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));

/** An SVG of the page as a file of its own, in the colours that it has now. */
export function drawing(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
  for (const [number, element] of from.entries()) {
    const style = getComputedStyle(element);
    for (const name of STYLED) to[number].setAttribute(name, style.getPropertyValue(name));
  }
  const { width, height } = svg.getBoundingClientRect();
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height }))
    copy.setAttribute(name, value);
  return new XMLSerializer().serializeToString(copy);
}

const STYLED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "visibility",
  "display",
];
