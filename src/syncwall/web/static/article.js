// Articles that the server writes, as elements of the page.
import { h } from "./dom.js";

/** Elements that an article may have; everything else becomes its text. */
const KNOWN =
  "p strong abbr br h2 h3 h4 h5 h6 nav ul ol li a div table thead tbody tr th td figure figcaption pre code em blockquote hr " +
  "svg g text line rect circle polygon polyline title tspan path";
const PARTS = "section span small b i button details summary dl dt dd";
const KEPT = /^(class|id|title|tabindex|scope|colspan|aria-label)$/;
const KEPT_IN_PARTS = /^(class|id|title|type|scope|colspan|tabindex|role|rel|aria-[a-z]+|data-[a-z_-]+)$/;

/** The article in `html`, which may quote a stranger's file: known elements and attributes only. */
export function article(html) {
  const written = new DOMParser().parseFromString(html, "text/html").body;
  return h(
    "article",
    { class: "panel finding" },
    [...written.childNodes].map((node) => copied(node)),
  );
}

/** The drawing in `markup`, of a report. */
export function picture(markup) {
  return copied(new DOMParser().parseFromString(markup, "text/html").body.firstElementChild);
}

/**
 * A copy of `node` with known elements and attributes only; links lead to places of the article. Parts of a page, which
 * quote nobody's file, have buttons and links to sources as well.
 */
export function copied(node, isPart = false) {
  if (node.nodeType !== Node.ELEMENT_NODE) return document.createTextNode(node.data ?? "");
  const [elements, kept, leads] = isPart ? [`${KNOWN} ${PARTS}`, KEPT_IN_PARTS, /^(https?:|#)/] : [KNOWN, KEPT, /^#/];
  if (!elements.split(" ").includes(node.localName)) return document.createTextNode(node.textContent);
  const copy = document.createElementNS(node.namespaceURI, node.localName);
  const isKept = ({ name, value }) =>
    copy instanceof SVGElement
      ? !/^(on|style$|href|xmlns|xlink)/i.test(name)
      : kept.test(name) || (name === "href" && leads.test(value));
  for (const one of node.attributes) if (isKept(one)) copy.setAttribute(one.name, one.value);
  copy.append(...[...node.childNodes].map((one) => copied(one, isPart)));
  return copy;
}
