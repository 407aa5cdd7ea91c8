// Job: when a whole training will be done, what it costs, and what happens on the way.
import { answering, beside, verdict } from "../answering.js";
import { ask } from "../ask.js";
import { asSvg, recoloured } from "../chart.js";
import { at, h, items, put, quiet } from "../dom.js";
import { csvFile, jsonFile, svgFile } from "../exports.js";
import { input, together } from "../form.js";
import { counted, mass, money, percent, prefixed, span } from "../format.js";
import { job, jobFaults, jobForm, stated } from "../job/form.js";
import { finish, intervals } from "../job/pictures.js";
import { ledger } from "../ledger.js";
import { proposals } from "../proposals.js";
import { faults, runForm } from "../run_form.js";
import * as state from "../state.js";
import { table, unseen, words } from "../table.js";
import { command, takeAlong } from "../take_along.js";
import { tile } from "../tiles.js";

const FIRST = "2T";
const HARDLY = 4; // from there on, losses are too small to be seen beside the rest
let answer = null;

const asked = answering(
  async (signal) => {
    put(at("command"), command(state.command() + jobFlags()));
    const hoped = { by: state.get("chance.by") || null, within: state.get("chance.within") || null };
    answer = await ask("job", { run: state.run(), job: job(), ...hoped }, { signal });
    later();
    await shown();
  },
  { impossible: () => "This job is not possible", marked: (problems) => faults(jobFaults(problems)), wait_ms: 50 },
);

const later = beside("next", async (signal) => {
  put(at("next"), quiet("playing changes through …"));
  at("next").classList.remove("stale"); // what was old is gone
  return changes((await ask("job/next", { run: state.run(), job: job() }, { signal })).next);
});

const jobFlags = () =>
  stated()
    .map(([key, value]) => ` ${state.flag(["tokens", "steps"].includes(key) ? key : `job.${key}`, value)}`)
    .join("");

async function shown() {
  const ends = answer.finish !== null;
  const isLost = answer.finish_s[1] === null || !answer.fits;
  verdict(
    answer.verdict,
    isLost ? "bad" : answer.effective_training_time >= 0.9 ? "good" : "warn",
    `${counted(answer.steps)} steps of ${figure(answer.step_s)} on ${counted(answer.gpus)} GPUs (${answer.step_verdict}); ${answer.stops}`,
  );
  tiles();
  put(
    at("finish-about"),
    `${counted(answer.simulations)} jobs played through, seed ${answer.seed}${ends && answer.finish.later_or_never > 0.0005 ? `; ${percent(answer.finish.later_or_never)} end later or never` : ""}`,
  );
  put(at("quantiles"), quantiles());
  chances();
  at("phases-panel").hidden = !answer.phases.length;
  put(at("phases"), phases());
  ledgers();
  put(at("interval-about"), answer.intervals ? "by the renewal formula, with a spare always at hand" : "");
  put(at("saves"), `${answer.saves}.`);
  put(
    at("stops"),
    Object.entries(answer.causes_per_day)
      .map(([cause, rate]) => `${cause} ${Number(rate.toPrecision(2))}`)
      .join(", "),
    " interruptions a day",
  );
  put(at("inputs"), inputs());
  put(at("off"), `Not counted, because nothing was stated: ${answer.off}.`);
  put(at("assumed"), items(answer.assumed));
  await drawn();
}

/** How likely it is that what is hoped for comes true. */
function chances() {
  const { by, within } = answer.chances;
  const tone = (share) => (share >= 0.9 ? "better" : share < 0.5 ? "worse" : "");
  const said = (key, share, words) =>
    share !== null &&
    h("p", { data: { chance: key, value: share } }, h("b", { class: tone(share) }, percent(share, 0)), words);
  put(
    at("chances"),
    said(
      "by",
      by,
      ` of the jobs are done ${/^\d{4}-/.test(state.get("chance.by")) ? "by" : "within"} ${state.get("chance.by")}`,
    ),
    said("within", within, ` are done for at most ${state.get("chance.within")}`),
    state.get("chance.within") && within === null && quiet("No price is known: write one in the form."),
  );
}

async function drawn() {
  if (!answer) return;
  if (!answer.finish) globalThis.Plotly?.purge(at("finish"));
  if (!answer.intervals) globalThis.Plotly?.purge(at("interval"));
  at("finish").hidden = !answer.finish;
  at("interval").hidden = !answer.intervals;
  await Promise.all([
    answer.finish && finish(at("finish"), answer),
    answer.intervals && intervals(at("interval"), answer.intervals),
  ]);
}

const figure = (seconds) => (seconds < 120 ? `${Number(seconds.toPrecision(3))} s` : span(seconds));
const orNever = (seconds, text = span) => (seconds === null ? "never" : text(seconds));
const whole = (value) => (value === null ? "–" : money(value));

function tiles() {
  const [low, middle, high] = answer.finish_s;
  const dates = answer.finish_dates?.map((date) => date?.slice(0, 10) ?? "never");
  const cost = answer.cost_usd,
    spare = answer.gpus_paid - answer.gpus;
  put(
    at("tiles"),
    tile(
      "finish",
      dates ? `Done (P50), after ${orNever(middle)}` : "Done after (P50)",
      dates ? dates[1] : orNever(middle),
      dates ? `80% interval: ${dates[0]} to ${dates[2]}` : `80% interval: ${orNever(low)} to ${orNever(high)}`,
      middle,
    ),
    tile(
      "effective",
      "Effective training time",
      percent(answer.effective_training_time),
      `${span(answer.work_s)} undisturbed`,
      answer.effective_training_time,
    ),
    tile(
      "cost",
      "Cost (P50)",
      cost ? whole(cost[1]) : "no price known",
      cost
        ? `80% interval: ${whole(cost[0])} to ${whole(cost[2])}; $${answer.usd_per_gpu_hour.toFixed(2)} a GPU-hour`
        : "write one in the form",
      cost?.[1],
    ),
    tile(
      "interruptions",
      "Interruptions",
      counted(answer.interruptions[1]),
      `80% interval: ${counted(answer.interruptions[0])} to ${counted(answer.interruptions[2])}; one every ${orNever(answer.mean_between_interruptions_s)}`,
      answer.interruptions[1],
    ),
    tile(
      "gpus",
      "GPUs paid for",
      counted(answer.gpus_paid),
      `${counted(spare)} of them spare (${counted(answer.spare_nodes)} nodes)`,
      answer.gpus_paid,
    ),
  );
}

function quantiles() {
  const row = (name, values, text) => [
    name,
    ...(values ?? [null, null, null]).map((value) => (value === null ? "–" : text(value))),
  ];
  return table(
    [words(unseen("what")), "P10", "P50", "P90"],
    [
      answer.finish_dates && row("date", answer.finish_dates, (date) => date.slice(0, 10)),
      row("length", answer.finish_s, span),
      row("cost", answer.cost_usd, money),
      answer.owned_cost_usd && row("cost if bought", answer.owned_cost_usd, money),
      row("energy", answer.energy_j, (joules) => prefixed(joules / 3.6e3, "Wh")),
      answer.carbon_kg && row("CO₂", answer.carbon_kg, mass),
      row("interruptions", answer.interruptions, counted),
    ],
  );
}

/** What the job consists of, one row for every batch size. */
function phases() {
  const rows = answer.phases.map((one) => ({
    data: { phase: one.phase, value: one.step_s },
    cells: [
      one.phase,
      counted(one.global_batch),
      counted(one.seq),
      counted(one.steps),
      Number((one.tokens / 1e9).toPrecision(3)).toLocaleString("en-US"),
      figure(one.step_s),
      one.fits ? percent(one.mfu) : "does not fit",
      span(one.work_s),
      counted(Math.round(one.gpu_hours)),
    ],
  }));
  const head = ["sequences", "of tokens", "steps", "billion tokens", "step", "MFU", "undisturbed", "GPU-hours"];
  return table([words("phase"), ...head], rows);
}

function ledgers() {
  if (!answer.finish) return put(at("ledger"), quiet("No job came to its end."));
  const { useful, ...losses } = answer.ledger_s;
  const lost = Object.values(losses).reduce((sum, value) => sum + value, 0);
  put(
    at("ledger"),
    ledger(answer.ledger_s, { total: "from start to end", text: span }),
    useful > HARDLY * lost &&
      lost > 0 &&
      h(
        "div",
        { class: "losses" },
        h("h3", {}, `The ${percent(lost / (lost + useful))} that is not training`),
        ledger(losses, { total: "not training", text: span }),
      ),
  );
}

function inputs() {
  const rows = answer.inputs.map((one) => ({
    data: { input: one.name, value: one.value },
    cells: [one.name, one.text, one.trust, one.source ?? ""],
  }));
  return table([words("what"), "value", words("trust"), words("from")], rows, { class: "stacked" });
}

function changes(found) {
  if (!found.length) return quiet("No single change of the job helps.");
  const made = found.map(({ change, gained_s, saved_usd, effective_training_time, keys }) => {
    const saved =
      saved_usd === null
        ? []
        : [
            "; ",
            h(
              "span",
              { class: saved_usd >= 0 ? "better" : "worse" },
              `${saved_usd >= 0 ? "saves" : "costs"} ${money(Math.abs(saved_usd))}`,
            ),
          ];
    return {
      change,
      gained: gained_s,
      gain: gained_s === null ? "finishes" : `−${span(gained_s)}`,
      beside: [`${percent(effective_training_time)} effective`, ...saved],
      keys: Object.fromEntries(Object.entries(keys).map(([key, value]) => [`job.${key}`, value])),
    };
  });
  return proposals(made);
}

if (!["tokens", "steps", "phases"].some((key) => state.get(`job.${key}`))) state.set({ "job.tokens": FIRST });
await runForm();
jobForm(at("job-form"), await ask("job/options"), (await ask("options")).clusters);
put(
  at("hoped"),
  input("chance.by", "Chance of being done by", "2027-06-01, 90 days"),
  input("chance.within", "and within", "$2,000,000"),
);
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
