// The job under the run: how long, what fails, how it saves, what it costs. Keys are those of a job file.
import { at, h, put } from "../dom.js";
import * as state from "../state.js";

const SHORT = { wait: "wait for a repair", shrink: "go on with fewer replicas" };

/** Draw the form into `place`; `options` are those of the API, `clusters` those of the run's form. */
export function jobForm(place, options, clusters) {
  const studies = Object.fromEntries(options.failures.map(({ name, title }) => [name, `${name}: ${title}`]));
  put(
    place,
    h(
      "details",
      { class: "panel", open: innerWidth > 900 },
      h("summary", {}, h("h2", {}, "The job"), " ", h("span", { id: "job-line" })),
      h(
        "form",
        { class: "job-form", "aria-label": "The job", onsubmit: (event) => event.preventDefault() },
        h(
          "div",
          { class: "pair" },
          text("tokens", "Tokens", "15T", "or steps"),
          text("start", "Start", "", "", "date"),
        ),
        choice("failures.like", "Failures like", studies, "typical"),
        h(
          "div",
          { class: "pair" },
          text("failures.per_1000_node_days", "Or: in 1,000 node days", "as the study", "", "number"),
          text("spares", "Spare nodes", "enough", "", "number"),
        ),
        h(
          "div",
          { class: "pair" },
          text("checkpoints.interval", "Save every", "best"),
          text("checkpoints.storage", "Storage writes", "1 GB/s a node"),
        ),
        check("checkpoints.blocking", "training waits while it saves", true),
        price(options.prices, clusters),
        h(
          "details",
          {},
          h("summary", {}, "More"),
          h(
            "div",
            { class: "job-form" },
            h(
              "div",
              { class: "pair" },
              text("failures.detection", "Noticed after", "10 min"),
              text("failures.restart", "Restart takes", "60 s + 8.5 ms a GPU"),
            ),
            h(
              "div",
              { class: "pair" },
              text("failures.repair", "Repair takes", "1 days"),
              text("failures.domain_gpus", "GPUs lost together", "scale-up domain", "", "number"),
            ),
            choice("when_short", "If no spare is left", SHORT, "wait"),
            h(
              "div",
              { class: "pair" },
              text("steps", "Steps, not tokens", "", "", "number"),
              text("checkpoints.size", "Checkpoint size", "of the model"),
            ),
            h(
              "div",
              { class: "pair" },
              text("failures.early_factor", "First day fails × as often", "1", "", "number"),
              text("data_stall", "Waits for data, share", "0", "", "number"),
            ),
            h(
              "div",
              { class: "pair" },
              text("maintenance.every", "Planned stop every", "never"),
              text("maintenance.time", "Planned stop takes", ""),
            ),
            h(
              "div",
              { class: "pair" },
              text("simulations", "Jobs played through", "1000", "", "number"),
              text("seed", "Seed", "0", "", "number"),
            ),
          ),
        ),
        h("div", { id: "job-faults", role: "alert" }),
      ),
    ),
  );
  state.heard(shown);
  shown();
}

function changed(event) {
  const { name, value } = event.target;
  state.set({ [name]: value.trim() }, { lasting: true });
}

const field = (label, control) => h("label", { class: "field" }, h("span", {}, label), control);

function text(key, label, placeholder, title = "", type = "text") {
  const step = type === "number" ? "any" : null;
  return field(
    label,
    h("input", {
      name: `job.${key}`,
      type,
      placeholder,
      title,
      step,
      min: type === "number" ? 0 : null,
      autocomplete: "off",
      spellcheck: "false",
      onchange: changed,
    }),
  );
}

function choice(key, label, choices, first) {
  return field(
    label,
    h(
      "select",
      {
        name: `job.${key}`,
        data: { first },
        onchange: (event) =>
          state.set(
            { [event.target.name]: event.target.value === first ? null : event.target.value },
            { lasting: true },
          ),
      },
      Object.entries(choices).map(([value, said]) => h("option", { value }, said)),
    ),
  );
}

function check(key, label, isOn) {
  return h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      name: `job.${key}`,
      data: { on: isOn },
      onchange: (event) =>
        state.set(
          { [event.target.name]: event.target.checked === isOn ? null : event.target.checked },
          { lasting: true },
        ),
    }),
    label,
  );
}

/** US dollars for a GPU-hour; what sellers ask for this device is suggested. */
function price(offers, clusters) {
  const list = h("datalist", { id: "prices" });
  const suggested = () => {
    const device = clusters.find(({ name }) => name === state.get("cluster"))?.device;
    put(
      list,
      offers
        .filter((offer) => offer.device === device)
        .sort((a, b) => a.usd_per_gpu_hour - b.usd_per_gpu_hour)
        .map((offer) =>
          h(
            "option",
            { value: `$${offer.usd_per_gpu_hour}/GPU-hour` },
            `${offer.seller}, ${offer.terms}, ${offer.date}`,
          ),
        ),
    );
  };
  state.heard(suggested);
  suggested();
  const written = (event) => {
    const [, amount] = /^\$?\s*(\d+(?:\.\d+)?)$/.exec(event.target.value.trim()) ?? [];
    if (amount) event.target.value = `$${amount}/GPU-hour`;
    changed(event);
  };
  return h(
    "div",
    {},
    field(
      "Price (US dollars for a GPU-hour)",
      h("input", {
        name: "job.price",
        list: "prices",
        placeholder: "usual on-demand price",
        autocomplete: "off",
        onchange: written,
      }),
    ),
    list,
  );
}

/** Bring the controls to what the address says. */
function shown() {
  put(
    at("job-line"),
    state.get("job.tokens")
      ? `${state.get("job.tokens")} tokens`
      : state.get("job.steps")
        ? `${state.get("job.steps")} steps`
        : "",
  );
  for (const control of at("job-form").querySelectorAll("[name]")) {
    const value = state.get(control.name);
    if (control.type === "checkbox") control.checked = value === "" ? control.dataset.on === "true" : value === "true";
    else if (control.tagName === "SELECT") control.value = value || control.dataset.first;
    else if (document.activeElement !== control || control.value.trim() !== value) control.value = value;
  }
}

/** The job as the API takes it. */
export function job() {
  const asked = {};
  for (const [key, value] of Object.entries(state.under("job."))) {
    const [outer, inner] = key.split(".");
    if (inner) (asked[outer] ??= {})[inner] = state.scalar(value);
    else asked[key] = state.scalar(value);
  }
  return asked;
}

/** Say what is wrong with the job; returns the problems that are about the run. */
export function jobFaults(problems = []) {
  const mine = new Map([...at("job-form").querySelectorAll("[name]")].map((control) => [control.name, control]));
  for (const control of mine.values()) control.removeAttribute("aria-invalid");
  const here = problems.filter(({ where }) => mine.has(`job.${where}`) || !where);
  for (const { where } of here) mine.get(`job.${where}`)?.setAttribute("aria-invalid", "true");
  put(
    at("job-faults"),
    here.map(({ where, what }) => h("p", { class: "fault" }, where ? `${where}: ${what}` : what)),
  );
  return problems.filter((one) => !here.includes(one));
}
