// Findings: recorded experiments and measurements as articles.
import { article as article_of } from "../article.js";
import { ask, newest, Refused } from "../ask.js";
import { at, h, items, put, quiet } from "../dom.js";
import { headed, linked } from "../in_page.js";
import * as state from "../state.js";
import { command } from "../take_along.js";

let open = null;

const shown = newest(async (signal) => {
  open = state.get("findings.id");
  const id = open;
  try {
    if (id.includes("/")) throw new Refused([{ where: "", what: "there is no finding of this name" }]);
    if (id) article(await ask(`findings/${encodeURIComponent(id)}`, undefined, { signal }));
    else list(await ask("findings", undefined, { signal }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    headed("Findings", error.message);
    put(at("content"), back());
  }
});

const link = (id, words) => linked("findings", { id }, words);
const back = () => h("p", {}, link(null, "‹ all findings"));
const day = (made) => made.slice(0, 10);

function list({ findings, unread }) {
  headed(
    "Findings",
    "Real experiments, measured and predicted; each can be repeated. Your own appear here with syncwall serve --findings DIR.",
  );
  put(
    at("content"),
    h("div", { class: "cards" }, findings.map(card)),
    !findings.length &&
      quiet("There are none: write results of lab run and measure into a folder and name it with --findings."),
    unread.length > 0 &&
      h(
        "details",
        { class: "small quiet" },
        h("summary", {}, `${unread.length} files are no results`),
        h("ul", {}, items(unread.map(({ file, what }) => `${file}: ${what}`))),
      ),
  );
}

function card(one) {
  return h(
    "section",
    { class: "panel", data: { finding: one.id } },
    h("h2", {}, link(one.id, one.title)),
    h("ul", { class: "says" }, items(one.says)),
    one.question && h("p", { class: "small quiet" }, `Asked: ${one.question}`),
    h(
      "p",
      { class: "small quiet" },
      [
        one.is_built_in ? "recorded for syncwall" : "yours",
        one.kind,
        day(one.made_at),
        one.machine,
        one.load,
        one.complete ? "" : "interrupted",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  );
}

function article(found) {
  headed(
    found.title,
    [day(found.made_at), found.machine, found.complete ? "" : "interrupted"].filter(Boolean).join(" · "),
  );
  put(
    at("content"),
    back(),
    article_of(found.html),
    h("p", { class: "small quiet" }, "As a file: ", command(`syncwall report ${found.file} --html article.html`)),
  );
}

state.heard(() => {
  if (state.get("findings.id") !== open) shown(); // a link inside an article is no other article
});
shown();
