// The lines of a ledger: one order and one colour everywhere.

const KNOWN = {
  GEMM: "gemm",
  attention: "attention",
  elementwise: "elementwise",
  head: "head",
  recompute: "recompute",
  optimizer: "optimizer",
  accumulation: "accumulation",
  contention: "contention",
  host: "host",
  "exposed TP": "exposed-tp",
  "exposed CP": "exposed-cp",
  "exposed EP": "exposed-ep",
  "exposed FSDP gather": "exposed-gather",
  "exposed DP": "exposed-dp",
  "exposed PP": "exposed-pp",
  "pipeline bubble": "bubble",
  "straggler wait": "straggler",
  // of a whole job
  useful: "gemm",
  evaluation: "attention",
  "data loading": "host",
  stragglers: "straggler",
  maintenance: "contention",
  checkpoint: "exposed-tp",
  "lost work": "exposed-gather",
  restart: "exposed-dp",
  "waiting for repair": "bubble",
  "fewer nodes": "exposed-pp",
  "start-up": "other",
};
const ORDER = Object.keys(KNOWN);

/** Computation first, waiting last. */
export const ordered = (ledger) => Object.entries(ledger).sort(([a], [b]) => place(a) - place(b));

const place = (cause) => (ORDER.includes(cause) ? ORDER.indexOf(cause) : ORDER.length);

/** True if nothing is computed meanwhile. */
export const isWait = (cause) =>
  /^(exposed|pipeline|straggler|host|checkpoint|lost|restart|waiting|maintenance|start-up)/.test(cause);

/** The colour of a cause, for CSS. */
export const colour = (cause) => `var(--${KNOWN[cause] ?? "other"})`;

/** The colour of a cause as it is now, for libraries that know no variables. */
export const drawn = (cause) => resolved(`--${KNOWN[cause] ?? "other"}`);

/** The value of a colour variable as it is now. */
export function resolved(variable) {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
