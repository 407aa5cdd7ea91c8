// The run that is looked at: what ran, what was predicted, where the number comes from, and a way to Predict.
import { ask, Refused } from "../ask.js";
import { at, h, put, quiet } from "../dom.js";
import { counted, duration, signedPercent } from "../format.js";
import * as state from "../state.js";
import { linked } from "../web_links.js";

/** How far off a prediction is, with its sign. */
export const signedError = (run) => signedPercent(run.ratio - 1);

/** Show `run`, which comes `from` a source. */
export function about(run, from) {
  if (!run)
    return put(
      at("run-about"),
      quiet("Choose a point to see what ran, what was predicted, and where the number comes from."),
    );
  if (at("run-about").firstElementChild?.dataset.run === run.id) return null;
  const line = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  const more = h("div", { data: { more: "" } });
  put(
    at("run-about"),
    h(
      "dl",
      { class: "facts", data: { run: run.id } },
      line("ran", `${run.model} on ${counted(run.gpus)} × ${run.device}, ${run.framework || "framework not named"}`),
      line("layout", run.layout),
      line("measured", h("b", {}, duration(run.measured_s)), " a step"),
      line(
        "predicted",
        h("b", {}, duration(run.predicted_s)),
        ` (${signedError(run)}); 80% interval: ${duration(run.low_s)} to ${duration(run.high_s)}${run.isCovered ? "" : ", which it misses"}`,
      ),
      line("used for", run.part),
      run.doubt && line("in doubt", run.doubt),
      line(
        "source",
        `${from.title || run.source}. ${from.author}${from.author ? ", " : ""}${from.date}.`,
        h("br"),
        h("span", { class: "quiet" }, linked(from.where)),
      ),
      line("id", h("code", {}, run.id)),
    ),
    more,
  );
  return opened(run, more);
}

/** The way to Predict, once the server has said what the run is. */
async function opened(run, place) {
  try {
    const found = await ask(`accuracy/run?name=${encodeURIComponent(run.id)}`);
    const open = found.open.join(", ").replaceAll("_", " ");
    put(
      place,
      h("a", { class: "button", href: state.addressOf(found.run) }, "Open in Predict"),
      found.cited && h("p", { class: "quiet small" }, "In the source: ", linked(found.cited)),
      open && quiet(`The source does not say ${open}: what is usual counts here, what fits and is fastest in Predict.`),
    );
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(place, quiet(error.message));
  }
}
