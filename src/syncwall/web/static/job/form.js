// The job under the run: how long, what fails, how it saves, what it costs. Keys are those of a job file.
import { at, h, put } from "../dom.js";
import { marked, together } from "../form.js";
import * as state from "../state.js";

/** Bring the form of the page to life; `offered` is what the API offers, `clusters` those of the run's form. */
export function jobForm(offered, clusters) {
  const place = at("job-form");
  at("job-panel").open = innerWidth > 900;
  put(
    place.querySelector('[name="job.failures.like"]'),
    offered.failures.map(({ name, title }) => h("option", { value: name }, `${name}: ${title}`)),
  );
  place.querySelector('[name="job.price"]').addEventListener("change", ({ target }) => {
    const [, amount] = /^\$?\s*(\d+(?:\.\d+)?)$/.exec(target.value.trim()) ?? [];
    if (amount) target.value = `$${amount}/GPU-hour`;
  });
  together(place);
  for (const told of [shown, () => suggested(offered.prices, clusters)]) {
    state.heard(told);
    told();
  }
}

/** US dollars for a GPU-hour: what sellers ask for this device. */
function suggested(offers, clusters) {
  const device = clusters.find(({ name }) => name === state.get("cluster"))?.device;
  const mine = offers.filter((offer) => offer.device === device);
  mine.sort((a, b) => a.usd_per_gpu_hour - b.usd_per_gpu_hour);
  put(
    at("prices"),
    mine.map((one) =>
      h("option", { value: `$${one.usd_per_gpu_hour}/GPU-hour` }, `${one.seller}, ${one.terms}, ${one.date}`),
    ),
  );
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
