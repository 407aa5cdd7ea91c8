// Where sources are to be found.
import { h } from "./dom.js";

const ADDRESS = /https?:\/\/[^\s,;]+|arXiv:(\d{4}\.\d{4,5})/;

/** Text whose first web address, or number at arXiv, is a link. */
export function linked(text) {
  const found = text.match(ADDRESS);
  if (!found) return text;
  const [before, after] = [text.slice(0, found.index), text.slice(found.index + found[0].length)];
  const href = found[1] ? `https://arxiv.org/abs/${found[1]}` : found[0];
  return [before, h("a", { href, rel: "noreferrer" }, found[0].replace(/^https?:\/\//, "")), after];
}
