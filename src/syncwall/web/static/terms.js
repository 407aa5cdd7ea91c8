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

/** `words`; if they are a term, it says what it means to who points at it or comes to it with the keyboard. */
export function term(words) {
  const meaning = typeof words === "string" ? TERMS[plain(words)] : null;
  if (!meaning) return words;
  const told = (event) => event.target.matches(":focus-visible") && showTip(meaning, event);
  const pressed = ({ key }) => key === "Escape" && hideTip();
  return h("abbr", { tabindex: "0", title: meaning, onfocus: told, onblur: hideTip, onkeydown: pressed }, words);
}
