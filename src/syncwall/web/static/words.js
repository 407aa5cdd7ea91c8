// Keys of a run in words, by the tables of syncwall.show.field_words.
import { KEYS, VALUES } from "./word_list.js";

/** A key of the address in words: "layout.tp" is "tp (tensor parallel)". */
export const keyWords = (key) => {
  const name = key.split(".").at(-1);
  return KEYS[name] ?? name.replaceAll("_", " ");
};

/** One field of a layout with its value, in words. */
export function fieldWords(key, value) {
  const [name, more] = keyWords(key).split(" (");
  const said = VALUES[key]?.[value] ?? VALUES[key]?.[""] ?? `${name} {}${more ? ` (${more}` : ""}`;
  return said.replace("{}", value);
}
