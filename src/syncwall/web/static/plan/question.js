// A search as the server is asked for it: equal questions are asked with equal words, so that it can keep the answers.

import { SEARCHED } from "../word_list.js";

/** The search of `run` with `more` wishes: of its layout only what stays as it is matters. */
export function searchOf(run, { keep = [], nodes = [], objective = "fastest", ...more } = {}) {
  const stays = Object.entries(run.layout).filter(
    ([key]) => keep.includes(key) || !(SEARCHED.includes(key) || key === "dp"),
  );
  return { run: { ...run, layout: Object.fromEntries(stays) }, keep, nodes, objective, beside_yours: false, ...more };
}
