// Findings: recorded experiments and measurements as articles.
import { ask, newest, Refused } from "../ask.js";
import { at, h, put } from "../dom.js";
import * as state from "../state.js";

/** Elements that notes may have; everything else becomes its text. */
const PLAIN = [
  "P",
  "UL",
  "OL",
  "LI",
  "H3",
  "H4",
  "H5",
  "H6",
  "CODE",
  "PRE",
  "EM",
  "STRONG",
  "BLOCKQUOTE",
  "TABLE",
  "THEAD",
  "TBODY",
  "TR",
  "TH",
  "TD",
  "BR",
  "HR",
];
const DRAWN = ["svg", "g", "text", "line", "rect", "circle", "polygon", "polyline", "title", "tspan", "path"];

const shown = newest(async (signal) => {
  const id = state.get("findings.id");
  try {
    if (id.includes("/")) throw new Refused([{ where: "", what: "there is no finding of this name" }]);
    if (id) article(await ask(`findings/${encodeURIComponent(id)}`, undefined, { signal }));
    else list(await ask("findings", undefined, { signal }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("title"), "Findings");
    put(at("about"), error.message);
    put(at("content"), back());
  }
});

function link(id, words) {
  const address = new URLSearchParams(state.query((key) => !key.startsWith("findings.")));
  if (id) address.set("findings.id", id);
  const go = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    state.set({ "findings.id": id }, { lasting: true });
    scrollTo(0, 0);
  };
  return h("a", { href: `/findings?${address}`, onclick: go }, words);
}

const back = () => h("p", {}, link(null, "‹ all findings"));
const day = (made) => made.slice(0, 10);

function list({ findings, unread }) {
  put(at("title"), "Findings");
  put(
    at("about"),
    "Real experiments, measured and predicted; each can be repeated. Your own appear here with syncwall serve --findings DIR.",
  );
  put(
    at("content"),
    h("div", { class: "cards" }, findings.map(card)),
    !findings.length &&
      h(
        "p",
        { class: "quiet" },
        "There are none: write results of lab run and measure into a folder and name it with --findings.",
      ),
    unread.length > 0 &&
      h(
        "details",
        { class: "small quiet" },
        h("summary", {}, `${unread.length} files are no results`),
        h(
          "ul",
          {},
          unread.map(({ file, what }) => h("li", {}, `${file}: ${what}`)),
        ),
      ),
  );
}

function card(one) {
  return h(
    "section",
    { class: "panel", data: { finding: one.id } },
    h("h2", {}, link(one.id, one.title)),
    one.question && h("p", {}, one.question),
    h(
      "ul",
      {},
      one.says.map((text) => h("li", {}, text)),
    ),
    h(
      "p",
      { class: "small quiet" },
      [
        one.is_built_in ? "recorded for syncwall" : "yours",
        one.kind,
        day(one.made_at),
        one.machine,
        one.complete ? "" : "interrupted",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  );
}

function article(found) {
  put(at("title"), found.title);
  put(
    at("about"),
    [day(found.made_at), found.machine, found.complete ? "" : "interrupted"].filter(Boolean).join(" · "),
  );
  const body = h("article", { class: "panel finding" });
  let figures = null;
  for (const block of found.blocks) {
    if (block.kind !== "figure") figures = null;
    else if (!figures) body.append((figures = h("div", { class: "figures" })));
    (figures ?? body).append(...written(block));
  }
  put(
    at("content"),
    back(),
    body,
    h("p", { class: "small quiet" }, "As a file: ", h("code", {}, `syncwall report ${found.file} --html article.html`)),
  );
}

function written(block) {
  switch (block.kind) {
    case "heading":
      return [h(`h${Math.min(block.level, 6)}`, {}, block.text)];
    case "paragraph":
      return [h("p", { class: block.is_quiet ? "quiet small" : "" }, block.text)];
    case "bullets":
      return [
        h(
          "ul",
          {},
          block.items.map((item) => h("li", {}, item)),
        ),
      ];
    case "code":
      return [h("pre", {}, block.text)];
    case "figure":
      return [
        h(
          "figure",
          {},
          copied(new DOMParser().parseFromString(block.svg, "image/svg+xml").documentElement, DRAWN),
          h("figcaption", {}, block.caption),
        ),
      ];
    case "notes":
      return [...new DOMParser().parseFromString(block.html, "text/html").body.childNodes].map((node) =>
        copied(node, PLAIN),
      );
    default:
      return [table(block)];
  }
}

function table({ head, rows, words }) {
  const kind = (number) => (number < words ? "words" : "nowrap");
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": head.join(", ") },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((name, number) => h("th", { class: kind(number) }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell, number) => h("td", { class: kind(number) }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** A copy of `node` with known elements only; attributes are those of drawings. */
function copied(node, known) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE) return document.createTextNode("");
  if (!known.includes(node.tagName)) return document.createTextNode(node.textContent);
  const copy = document.createElementNS(node.namespaceURI, node.localName);
  for (const { name, value } of node.attributes)
    if (known === DRAWN && !/^(on|style$|href|xmlns|xlink)/i.test(name)) copy.setAttribute(name, value);
  copy.append(...[...node.childNodes].map((child) => copied(child, known)));
  return copy;
}

state.heard(() => shown());
shown();
