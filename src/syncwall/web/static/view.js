// What the server wrote for places of a page: the same words and numbers as in the terminal.
import { copied } from "./article.js";
import { at, put } from "./dom.js";
import * as state from "./state.js";
import { explained } from "./terms.js";

/** Put each part of `html` into the place of its name. */
export function fill(html) {
  for (const [id, markup] of Object.entries(html)) put(at(id), written(markup));
}

/** The elements of `markup`; buttons set the keys that they name, terms say what they mean. */
export function written(markup) {
  const { body } = new DOMParser().parseFromString(markup, "text/html");
  const found = [...body.childNodes].map((node) => copied(node, true));
  for (const one of found.flatMap((node) => (node.querySelectorAll ? [node, ...node.querySelectorAll("*")] : []))) {
    const { width, left, colour, set, page, run } = one.dataset;
    if (width) one.style.width = `${width}%`;
    if (left) one.style.left = `${left}%`;
    if (colour) one.style.setProperty("--cause", `var(--${colour})`);
    if (set) sets(one, JSON.parse(set));
    if (page) one.href = state.pageWithRun(page, JSON.parse(run ?? "{}"));
    if (one.localName === "abbr") explained(one);
  }
  return found;
}

/** A button, or a link that can be opened elsewhere, too, which sets `keys` in the address. */
export function sets(element, keys) {
  const isLink = element.localName === "a";
  if (isLink) element.href = state.addressWith(keys);
  element.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    state.set(keys, { lasting: true });
    if (isLink) scrollTo(0, 0);
  });
  return element;
}
