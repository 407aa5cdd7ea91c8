// The job under the run: how long, what fails, how it saves, what it costs. Keys are those of a job file.
import { at, h, put } from "../dom.js";
import { number as asNumber, check, field, input, marked, pair, select, together } from "../form.js";
import * as state from "../state.js";

const SHORT = { wait: "wait for a repair", shrink: "go on with fewer replicas" };

/** Draw the form into `place`; `offered` is what the API offers, `clusters` those of the run's form. */
export function jobForm(place, offered, clusters) {
  const studies = Object.fromEntries(offered.failures.map(({ name, title }) => [name, `${name}: ${title}`]));
  const controls = h(
    "form",
    { class: "form", "aria-label": "The job" },
    pair(text("tokens", "Tokens", "15T", { title: "or steps" }), text("start", "Start", "", { type: "date" })),
    choice("failures.like", "Failures like", studies, "typical"),
    pair(
      number("failures.per_1000_node_days", "Or: in 1,000 node days", "as the study"),
      number("spares", "Spare nodes", "enough"),
    ),
    pair(
      text("checkpoints.interval", "Save every", "best"),
      text("checkpoints.storage", "Storage writes", "1 GB/s a node"),
    ),
    check("job.checkpoints.blocking", "training waits while it saves", true),
    price(offered.prices, clusters),
    more(),
    h("div", { id: "job-faults", role: "alert" }),
  );
  const summary = h("summary", {}, h("h2", {}, "The job"), " ", h("span", { id: "job-line" }));
  put(place, h("details", { class: "panel", open: innerWidth > 900 }, summary, controls));
  together(place);
  state.heard(shown);
  shown();
}

function more() {
  return h(
    "details",
    {},
    h("summary", {}, "More"),
    h(
      "div",
      { class: "form" },
      pair(
        text("failures.detection", "Noticed after", "10 min"),
        text("failures.restart", "Restart takes", "60 s + 8.5 ms a GPU"),
      ),
      pair(
        text("failures.repair", "Repair takes", "1 day"),
        number("failures.domain_gpus", "GPUs lost together", "those of a node"),
      ),
      choice("when_short", "If no spare is left", SHORT, "wait"),
      pair(number("steps", "Steps, not tokens", ""), text("checkpoints.size", "Checkpoint size", "of the model")),
      text("phases", "Phases, not tokens", "[{tokens: 1T, seq: 4096}, {tokens: 100B}]"),
      pair(
        number("failures.early_factor", "First day fails × as often", "1"),
        number("data_stall", "Waits for data, share", "0"),
      ),
      pair(text("owned.price", "Price to buy a GPU", "catalogue"), number("owned.years", "Years of use", "5")),
      pair(
        number("owned.electricity", "US dollars for a kWh", "0.0806"),
        text("power.region", "Electricity of", "the world's mean"),
      ),
      pair(text("maintenance.every", "Planned stop every", "never"), text("maintenance.time", "Planned stop takes")),
      pair(number("simulations", "Jobs played through", "1000"), number("seed", "Seed", "0")),
    ),
  );
}

const text = (key, ...more) => input(`job.${key}`, ...more);
const number = (key, ...more) => asNumber(`job.${key}`, ...more);
const choice = (key, label, choices, first) => field(label, select(`job.${key}`, choices, first));

/** US dollars for a GPU-hour; what sellers ask for this device is suggested. */
function price(offers, clusters) {
  const onchange = ({ target }) => {
    const [, amount] = /^\$?\s*(\d+(?:\.\d+)?)$/.exec(target.value.trim()) ?? [];
    if (amount) target.value = `$${amount}/GPU-hour`;
  };
  const label = "Price (US dollars for a GPU-hour)";
  const found = text("price", label, "usual on-demand price", { suggested: {}, onchange });
  const suggested = () => {
    const device = clusters.find(({ name }) => name === state.get("cluster"))?.device;
    const mine = offers.filter((offer) => offer.device === device);
    mine.sort((a, b) => a.usd_per_gpu_hour - b.usd_per_gpu_hour);
    const said = mine.map((one) => [`$${one.usd_per_gpu_hour}/GPU-hour`, `${one.seller}, ${one.terms}, ${one.date}`]);
    put(
      found.querySelector("datalist"),
      said.map(([value, words]) => h("option", { value }, words)),
    );
  };
  state.heard(suggested);
  suggested();
  return found;
}

/** How long the job is, for who has closed the form. */
function shown() {
  const said = ["phases", "tokens", "steps"].find((key) => state.get(`job.${key}`));
  put(at("job-line"), said === "phases" ? said : said && `${state.get(`job.${said}`)} ${said}`);
}

/** What the form says of the job; phases say how long it is, so that its length is left out beside them. */
export function stated() {
  const said = Object.entries(state.under("job."));
  return state.get("job.phases") ? said.filter(([key]) => !["tokens", "steps"].includes(key)) : said;
}

/** The job as the API takes it. */
export function job() {
  const asked = {};
  for (const [key, value] of stated()) {
    const [outer, inner] = key.split(".");
    if (inner) asked[outer] = { ...asked[outer], [inner]: state.scalar(value) };
    else asked[key] = key === "phases" ? value : state.scalar(value); // read by the server, as a flag is
  }
  return asked;
}

/** Say what is wrong with the job; returns the problems that are about the run. */
export function jobFaults(found = []) {
  const problems = found.map((one) => (one.where?.startsWith("phases.") ? { ...one, where: "phases" } : one));
  const isMine = ({ where }) => !where || at("job-form").querySelector(`[name="${CSS.escape(`job.${where}`)}"]`);
  marked(at("job-form"), at("job-faults"), problems.filter(isMine), (where) => [`job.${where}`]);
  return problems.filter((one) => !isMine(one));
}
