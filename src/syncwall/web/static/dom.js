// Elements from plain values. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element; attributes that are functions are listeners, `data` and `style` are objects. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of an SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

/** False for what a condition left out. */
export const isThere = (child) => child !== null && child !== undefined && child !== false;

/** The element with this id. */
export const at = (id) => document.getElementById(id);

/** Put `children` in the place of what an element holds. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isThere));
}

/** Lines of a list. */
export const items = (lines) => lines.map((line) => h("li", {}, line));

/** A sentence that steps back. */
export const quiet = (text) => h("p", { class: "quiet" }, text);

/** A patch of colour before a name. */
export const swatch = (colour, kind = "") => h("span", { class: `swatch ${kind}`, style: { "--cause": colour } });

let tip = null;

/** Show `text` near the pointer, or near the element that has the focus. */
export function showTip(text, event) {
  tip ??= document.body.appendChild(h("div", { class: "tip", role: "tooltip", hidden: true }));
  tip.textContent = text;
  tip.hidden = false;
  const box = event.clientX === undefined ? event.target.getBoundingClientRect() : null;
  const x = box ? box.left : event.clientX;
  const y = box ? box.bottom : event.clientY;
  const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8);
  const top = y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

/** Hide what `showTip` shows. */
export function hideTip() {
  if (tip) tip.hidden = true;
}

/** A listener that copies what `text()` gives and says so on the button. */
export function copying(text, said) {
  return async ({ currentTarget }) => {
    await navigator.clipboard.writeText(text());
    currentTarget.textContent = said;
  };
}

/** Offer `text` as a file. */
export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
