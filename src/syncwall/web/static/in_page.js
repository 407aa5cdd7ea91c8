// Pages that show a list and its entries: their heading, and links that stay on the page.
import { at, h, put } from "./dom.js";
import { sets } from "./view.js";

/** What stands above everything. */
export function headed(title, about) {
  put(at("title"), title);
  put(at("about"), about);
}

/** A link to what `keys` of `page` say; keys without a value leave the address. */
export function linked(page, keys, words, more = {}) {
  const named = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`${page}.${key}`, value]));
  return sets(h("a", more, words), named);
}
