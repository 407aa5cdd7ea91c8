// Fabric: switches and cables under a run, what each axis sends over them, and what a failure does.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { at, h, hideTip, put } from "../dom.js";
import { csvFile, jsonFile, drawing as pictured, svgFile, tabulated } from "../exports.js";
import { controls, legend } from "../fabric/controls.js";
import { drawing, highlight } from "../fabric/drawing.js";
import { flowControls, flowsShown, OWN } from "../fabric/flows.js";
import { listen, stopAt } from "../fabric/parts.js";
import { runForm } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { fill, written } from "../view.js";

const MOST = 12;
let shownControls = null;
let shownSweep = null;
let current = null;
let bringFlows = null;

const failed = () => state.get("fabric.failed").split(",").filter(Boolean);

const stated = (key) => state.get(`fabric.${key}`) || null;

/** The run, the fabric under it, and how flows find their way. */
const wiring = () => ({
  run: state.run(),
  kind: stated("kind"),
  switch: stated("switch"),
  oversubscription: stated("oversubscription") && Number(stated("oversubscription")),
  routing: stated("routing") ?? "ecmp",
  qps: Number(stated("qps") ?? 1),
});

const asked = answering(
  async (signal) => {
    chips(failed().map((part) => ({ part, name: part })));
    shown(await ask("fabric", { ...wiring(), failed: failed() }, { signal }));
  },
  { impossible: () => "This fabric is not possible", wait_ms: 40 },
);

const flows = beside("flows", async (signal) => {
  const chosen = { order: stated("order") ?? "nodes", jobs: stated("jobs") ?? "one", flows: stated("flows") };
  const answer = await ask("fabric/flows", { ...wiring(), ...chosen }, { signal });
  bringFlows(answer);
  return flowsShown(answer);
});

const variants = beside("each", async (signal) => {
  const answer = await ask("fabric/variants", wiring(), { signal });
  shownSweep(answer);
  return written(answer.html);
});

function shown(answer) {
  current = answer;
  verdict(answer.verdict.said, answer.verdict.tone, answer.verdict.why);
  at("verdict").dataset.value = answer.now?.step_s ?? "";
  shownControls(answer);
  legend(at("legend"), answer.graph.axes, state.get("fabric.axis"));
  drawn(answer);
  chips(answer.failed);
  fill(answer.html);
  put(at("command"), command(answer.command));
}

function drawn(answer) {
  const place = at("drawing");
  const active = place.contains(document.activeElement) ? document.activeElement.dataset.part : null;
  const stop = active ?? place.querySelector('[data-part][tabindex="0"]')?.dataset.part;
  const left = place.scrollLeft;
  hideTip();
  put(place, drawing(answer));
  place.classList.toggle("stopped", !answer.goes_on);
  highlight(place, state.get("fabric.axis"));
  stopAt(place, stop, Boolean(active));
  place.scrollLeft = left;
  put(at("drawn"), answer.graph.says);
}

/** What is broken, each with a button that mends it. */
function chips(parts) {
  put(
    at("broken"),
    parts.map((one) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          data: { broken: one.part },
          "aria-label": `Mend ${one.name}`,
          onclick: () => pressed(one.part),
        },
        `${one.name} ✕`,
      ),
    ),
    parts.length > 0 &&
      h(
        "button",
        { type: "button", id: "mend", onclick: () => state.set({ "fabric.failed": null }, { lasting: true }) },
        "Mend all",
      ),
  );
}

/** Break a part, or mend it. */
function pressed(id) {
  const parts = failed();
  const next = parts.includes(id) ? parts.filter((one) => one !== id) : [...parts, id].slice(-MOST);
  state.set({ "fabric.failed": next.join(",") }, { lasting: true });
}

const { switches } = (await Promise.all([ask("fabric/switches"), runForm()]))[0];
[shownControls, shownSweep] = controls(at("controls"), switches);
bringFlows = flowControls(at("flows-controls"));
listen(at("drawing"), pressed);
at("each").addEventListener("click", ({ target }) => target.dataset.part && pressed(target.dataset.part));
takeAlong(
  csvFile("fabric", () => tabulated(at("axes").querySelector("table")), "CSV of the traffic"),
  jsonFile("fabric", () => current),
  svgFile("fabric", () => pictured(at("drawing").querySelector("svg"))),
);
state.heard((changes) => {
  const keys = Object.keys(changes);
  if (keys.length === 1 && keys[0] === "fabric.axis" && current) {
    legend(at("legend"), current.graph.axes, state.get("fabric.axis"));
    highlight(at("drawing"), state.get("fabric.axis"));
    at("legend")
      .querySelector(`[data-axis="${changes["fabric.axis"] ?? ""}"]`)
      ?.focus();
  } else {
    const only = (known) => keys.length > 0 && keys.every((key) => known.includes(key));
    if (!only(OWN)) asked();
    if (!only(["fabric.failed"])) flows();
    if (!only([...OWN, "fabric.failed"])) variants();
  }
});
asked();
flows();
variants();
