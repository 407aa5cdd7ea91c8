// Plotly, loaded when the first chart of a page is drawn, in the colours of the page.
import { resolved } from "./causes.js";

let library = null;
let leaving = false; // a browser ends what still loads when its page is left: that is no failure

addEventListener("beforeunload", () => {
  leaving = true;
});

function loaded() {
  library ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    const rules = document.createElement("style"); // empty: Plotly fills it by calls, which the content policy allows
    rules.id = "plotly.js-style-global";
    document.head.append(rules);
    // Plotly brings a style sheet for maps, which the content policy refuses: it gets an element that styles nothing.
    document.createElement = (tag, ...more) =>
      Document.prototype.createElement.call(document, tag === "style" ? "template" : tag, ...more);
    script.src = new URL("./plotly.js", import.meta.url).href;
    script.addEventListener("load", () => {
      delete document.createElement;
      done(globalThis.Plotly);
    });
    script.addEventListener("error", () => {
      delete document.createElement;
      if (!leaving) failed(new Error("Plotly could not be loaded"));
    });
    document.head.append(script);
  });
  return library;
}

/** What a point says is its `text`. */
export const TOLD = { hovertemplate: "%{text}<extra></extra>" };

/** A legend above the chart. */
export const ABOVE = { orientation: "h", y: 1.02, yanchor: "bottom", font: { size: 12 } };

/** A line from the bottom to the top. */
export function upright(x, line, layer = "above") {
  const ends = { x0: x, x1: x, yref: "paper", y0: 0, y1: 1 };
  return { type: "line", ...ends, layer, line: { width: 1.5, ...line } };
}

/** A logarithmic axis with a mark at every power of ten from the least of `values` to the largest. */
export function decades(title, values, text) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, n) => Math.floor(low) + n);
  const marks = powers.map((power) => Number(`1e${power}`));
  return { type: "log", title, tickvals: marks, ticktext: marks.map(text) };
}

/** Call `drawn` again when the colours of the page change. */
export function recoloured(drawn) {
  addEventListener("themechange", () => drawn());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn());
}

const NARROW = 480;

/** Charts that the server described, each in the place of its name; without a description it is empty. */
export async function figures(described) {
  await Promise.all(
    Object.entries(described).map(([id, figure]) => {
      const element = document.getElementById(id);
      element.hidden = !figure;
      if (!figure) return globalThis.Plotly?.purge(element);
      const { traces, layout } = coloured(figure, element.clientWidth < NARROW);
      return chart(
        element,
        traces.map((one) => ({ ...TOLD, ...one })),
        layout,
      );
    }),
  );
}

/** `value` with the colours of the page for their names, and with what differs on a phone. */
function coloured(value, isNarrow) {
  if (typeof value === "string") {
    const [, name, opacity] = /^(--[a-z-]+)(?:\/(.+))?$/.exec(value) ?? [];
    const found = name ? resolved(name) : value;
    return opacity ? found.replace("rgb(", "rgba(").replace(")", `, ${opacity})`) : found;
  }
  if (Array.isArray(value)) return value.map((one) => coloured(one, isNarrow));
  if (value === null || typeof value !== "object") return value;
  const { narrow, ...usual } = value;
  const merged = isNarrow ? { ...usual, ...narrow } : usual;
  return Object.fromEntries(Object.entries(merged).map(([key, one]) => [key, coloured(one, isNarrow)]));
}

/** The chart in `element` as the text of an SVG. */
export async function asSvg(element) {
  const { width, height } = element.getBoundingClientRect();
  const address = await (await loaded()).toImage(element, { format: "svg", width, height });
  return decodeURIComponent(address.slice(address.indexOf(",") + 1));
}

/** Draw `traces` into `element`; `layout` is Plotly's, laid over ours, with axes whose titles are plain text. Returns the element, for events. */
export async function chart(element, traces, layout = {}) {
  const Plotly = await loaded();
  const ink = resolved("--ink"),
    quiet = resolved("--quiet"),
    line = resolved("--line"),
    panel = resolved("--raised");
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true };
  const plain = { separatethousands: true, exponentformat: "none" }; // 10,000, not 10k
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 56, r: 16, t: 12, b: 44 },
    font: { family: 'system-ui, "DejaVu Sans", sans-serif', size: 12, color: quiet },
    hoverlabel: { bgcolor: panel, bordercolor: line, font: { color: ink, size: 12 }, align: "left" },
    showlegend: "legend" in layout,
    hovermode: "closest",
    autosize: true,
    dragmode: "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
  };
  const merged = { ...base, ...layout, margin: { ...base.margin, ...layout.margin } };
  for (const name of ["xaxis", "yaxis"]) {
    const { title, ...own } = layout[name];
    merged[name] = { ...axis, ...plain, title: { text: title }, ...own };
  }
  await Plotly.react(element, traces, merged, {
    displaylogo: false,
    responsive: true,
    modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
    plotlyServerURL: "" /* nothing is shared elsewhere */,
    displayModeBar: "hover",
  });
  return element;
}
