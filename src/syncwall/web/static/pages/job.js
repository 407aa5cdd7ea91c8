// Job: when a whole training will be done, what it costs, and what happens on the way.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { asSvg, figures, recoloured } from "../chart.js";
import { at, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { together } from "../form.js";
import { job, jobFaults, jobForm, stated } from "../job/form.js";
import { faults, runForm } from "../run_form.js";
import * as state from "../state.js";
import { command, takeAlong } from "../take_along.js";
import { fill, written } from "../view.js";

const FIRST = "2T";
let answer = null;

const asked = answering(
  async (signal) => {
    put(at("command"), command(state.command() + jobFlags()));
    const hoped = { by: state.get("chance.by") || null, within: state.get("chance.within") || null };
    answer = await ask("job", { run: state.run(), job: job(), ...hoped }, { signal });
    later();
    const isLost = answer.finish_s[1] === null || !answer.fits;
    verdict(answer.verdict, isLost ? "bad" : answer.effective_training_time >= 0.9 ? "good" : "warn");
    fill(answer.html);
    await drawn();
  },
  { impossible: () => "This job is not possible", marked: (problems) => faults(jobFaults(problems)), wait_ms: 50 },
);

const later = beside("next", async (signal) => {
  put(at("next"), quiet("playing changes through …"));
  at("next").classList.remove("stale"); // what was old is gone
  return written((await ask("job/next", { run: state.run(), job: job() }, { signal })).html.next);
});

const jobFlags = () =>
  stated()
    .map(([key, value]) => ` ${state.flag(["tokens", "steps"].includes(key) ? key : `job.${key}`, value)}`)
    .join("");

const drawn = async () => answer && figures(answer.figures);

if (!["tokens", "steps", "phases"].some((key) => state.get(`job.${key}`))) state.set({ "job.tokens": FIRST });
await runForm();
jobForm(await ask("job/options"), (await ask("options")).clusters);
together(at("hoped"));
takeAlong(
  csvFile("job", () => [
    ["from_s", "to_s", "share_of_jobs", "done_by_then"],
    ...(answer.finish?.shares ?? []).map((share, i) => [
      answer.finish.edges_s[i],
      answer.finish.edges_s[i + 1],
      share,
      answer.finish.done_by[i],
    ]),
  ]),
  jsonFile("job", () => answer),
  svgFile("job", () => asSvg(at("finish"))),
);
state.heard(() => asked());
recoloured(drawn);
asked();
