// What words mean: the glossary of the server, told by the words themselves.
import { h, hideTip, showTip } from "./dom.js";
import { TERMS } from "./term_list.js";

const plain = (words) =>
  words
    .toLowerCase()
    .split(/[-_\s]+/)
    .join(" ")
    .trim();

/** What the label of a control means: "tp: tensor" and "Batch (sequences)" by what stands before. */
export const labelMeaning = (label) =>
  (typeof label === "string" && (TERMS[plain(label)] ?? TERMS[plain(label.split(/[:(]/)[0])])) || null;

/** `words`; if they are a term, they say what it means. */
export function term(words) {
  const meaning = typeof words === "string" ? TERMS[plain(words)] : null;
  return meaning ? explained(h("abbr", { title: meaning }, words)) : words;
}

/** A term that says its meaning to who comes to it with the keyboard, too. */
export function explained(abbr) {
  abbr.tabIndex = 0;
  abbr.addEventListener("focus", (event) => abbr.matches(":focus-visible") && showTip(abbr.title, event));
  abbr.addEventListener("blur", hideTip);
  abbr.addEventListener("keydown", ({ key }) => key === "Escape" && hideTip());
  return abbr;
}
