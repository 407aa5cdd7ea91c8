// Pages that show a list and its entries: their heading, and links that stay on the page.
import { at, h, put } from "./dom.js";
import * as state from "./state.js";

/** What stands above everything. */
export function headed(title, about) {
  put(at("title"), title);
  put(at("about"), about);
}

/** A link to what `keys` of `page` say; keys without a value leave the address. */
export function linked(page, keys, words, more = {}) {
  const named = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`${page}.${key}`, value]));
  const address = new URLSearchParams(state.query((key) => !key.startsWith(`${page}.`)));
  for (const [key, value] of Object.entries(named)) if (value) address.set(key, value);
  const go = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    state.set(named, { lasting: true });
    scrollTo(0, 0);
  };
  return h("a", { href: `./${page}?${address}`, onclick: go, ...more }, words);
}
