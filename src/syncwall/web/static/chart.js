// Plotly, loaded when the first chart of a page is drawn, in the colours of the page.
import { resolved } from "./causes.js";

let library = null;

function loaded() {
  library ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    const rules = document.createElement("style"); // empty: Plotly fills it by calls, which the content policy allows
    rules.id = "plotly.js-style-global";
    document.head.append(rules);
    // Plotly brings a style sheet for maps, which the content policy refuses: it gets an element that styles nothing.
    document.createElement = (tag, ...more) =>
      Document.prototype.createElement.call(document, tag === "style" ? "template" : tag, ...more);
    script.src = "/static/plotly.js";
    script.addEventListener("load", () => {
      delete document.createElement;
      done(globalThis.Plotly);
    });
    script.addEventListener("error", () => {
      delete document.createElement;
      failed(new Error("Plotly could not be loaded"));
    });
    document.head.append(script);
  });
  return library;
}

/** Draw `traces` into `element`; `layout` is Plotly's, laid over ours. Returns the element, for events. */
export async function chart(element, traces, layout = {}) {
  const Plotly = await loaded();
  const ink = resolved("--ink"),
    quiet = resolved("--quiet"),
    line = resolved("--line"),
    panel = resolved("--raised");
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true };
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 56, r: 16, t: 12, b: 44 },
    font: { family: 'system-ui, "DejaVu Sans", sans-serif', size: 12, color: quiet },
    hoverlabel: { bgcolor: panel, bordercolor: line, font: { color: ink, size: 12 }, align: "left" },
    legend: { orientation: "h", y: -0.18, font: { size: 12 } },
    autosize: true,
    dragmode: "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
  };
  const merged = { ...base, ...layout };
  for (const name of ["xaxis", "yaxis", "yaxis2"])
    if (name in layout || name !== "yaxis2") merged[name] = { ...axis, ...(layout[name] ?? {}) };
  await Plotly.react(element, traces, merged, {
    displaylogo: false,
    responsive: true,
    modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
    plotlyServerURL: "" /* nothing is shared elsewhere */,
    displayModeBar: "hover",
  });
  return element;
}
