// Flows that share links: how they find their way, what they cost, and links as wide as they are busy.
import { picture } from "../article.js";
import { download, h, put, quiet } from "../dom.js";
import { shown, together } from "../form.js";
import * as state from "../state.js";
import { command } from "../take_along.js";
import { written } from "../view.js";

/** Keys of the address that only flows depend on. */
export const OWN = ["fabric.order", "fabric.jobs", "fabric.flows"];

/** Bring the controls to life; the function that comes back brings them to an answer. */
export function flowControls(place) {
  const [drawn, routing] = ["flows", "routing"].map((key) => place.querySelector(`[name="fabric.${key}"]`));
  together(place);
  return (answer) => {
    const offered = answer.flows.map(({ id, name, slower }) =>
      h("option", { value: id }, `${name}: ${slower.toFixed(2)} times`),
    );
    put(drawn, h("option", { value: "" }, answer.jobs.length ? "of both jobs" : "the slowest"), offered);
    drawn.disabled = !answer.flows.length;
    for (const option of routing.options)
      option.disabled = option.value === "valiant" && answer.kind !== "dragonfly" && answer.routing !== "valiant";
    shown(place);
  };
}

/** What the answer says: sentences, numbers, the picture, and how to get the same in a terminal. */
export function flowsShown(answer) {
  const drawing = answer.svg && h("div", { class: "fabric-drawing finding", id: "flows-drawing" }, picture(answer.svg));
  drawing?.setAttribute("tabindex", "0");
  drawing?.setAttribute("role", "region");
  drawing?.setAttribute("aria-label", "Flows on links");
  return h(
    "div",
    { data: { needed: answer.needed, draws: answer.draws, busiest: answer.busiest ?? "" } },
    written(answer.html),
    drawing ?? quiet("Nothing leaves the scale-up domain: no link is shared."),
    taken(answer),
  );
}

/** The command, and the files that it reads. */
function taken({ flags, files, jobs: several }) {
  if (!flags) return quiet("predict --fabric sizes fabrics of 64 or 128 ports and one ratio: not this one.");
  const order = files["ranks.txt"] ? " --rank-order ranks.txt" : "";
  const said = several.length
    ? `syncwall plan placement jobs.yaml ${flags}`
    : `${state.command("predict")} ${flags}${order}`;
  const buttons = Object.entries(files).map(([name, text]) =>
    h("button", { type: "button", class: "no-print", onclick: () => download(name, text, "text/plain") }, name),
  );
  return h("div", { class: "row small" }, command(said), buttons);
}
