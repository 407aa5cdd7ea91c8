// The lanes of the workers of a team, and the table of where their time goes.
import { duration, percent, prefixed } from "../format.js";
import { table, wide, words } from "../table.js";
import { lanes } from "./lanes.js";

/** Computation above, exchange below, for every worker. */
export function workerLanes(answer, width, seek) {
  const seen = (4 * answer.span_s) / width; // what is shorter than four pixels is drawn with its neighbours
  const rows = answer.idle.map((idle, worker) => {
    const [bars, within] = computed(
      answer,
      worker,
      idle.filter((one) => one.end_s - one.start_s < seen),
    );
    const still = [...within, ...idle.filter((one) => one.end_s - one.start_s >= seen)].map((one) => ({
      class: "waits",
      start: one.start_s,
      end: one.end_s,
      data: { idle: one.end_s - one.start_s },
      tip: waiting(worker, one),
    }));
    const moved = answer.flights.flatMap((one) => {
      const tip = `${one.kind} of ${one.name}\n${one.operation}, ${prefixed(one.bytes, "B")}, ${duration(one.moving_s)} on the wires`;
      const early = one.start_s - one.ready_s[worker];
      const before =
        early > seen
          ? [
              {
                class: "waits",
                thin: true,
                start: one.ready_s[worker],
                end: one.start_s,
                tip: `worker ${worker + 1} is ready ${duration(early)} before worker ${one.last_ready + 1}`,
              },
            ]
          : [];
      return [...before, ...one.pieces.map(([start, end]) => ({ class: one.kind, start, end, tip }))];
    });
    return {
      name: `worker ${worker + 1}`,
      strong: answer.slow > 1 && worker === answer.worker,
      lanes: [
        { height: 15, bars: [...bars, ...still] },
        { height: 7, bars: moved },
      ],
    };
  });
  const label = `Lanes of ${answer.workers} workers over ${duration(answer.span_s)}: computation above, exchange below. ${answer.verdict}.`;
  return lanes({
    rows,
    span: answer.span_s,
    width,
    label,
    seek,
    marks: answer.phases.slice(2).map(({ start_s }) => ({ at_s: start_s })),
  });
}

/** Bars of the chunks, and the short waits inside each, put together at its end. */
function computed(answer, worker, short) {
  const left = [...short];
  const within = [];
  const bars = answer.chunks.map((one) => {
    const [start, end] = [one.starts[worker], one.ends[worker]];
    const sum = { end_s: end, worker_s: 0, wires_s: 0, host_s: 0, whom: null };
    while (left.length && left[0].start_s <= end * (1 + 1e-9)) {
      // the last one may begin where it ends
      const idle = left.shift();
      for (const key of ["worker_s", "wires_s", "host_s"]) sum[key] += idle[key];
      sum.end_s = Math.max(end, idle.end_s);
      sum.whom = idle.whom ?? sum.whom;
    }
    sum.start_s = sum.end_s - sum.worker_s - sum.wires_s - sum.host_s;
    if (sum.start_s < sum.end_s) within.push(sum);
    return {
      class: one.part,
      start,
      end,
      gap: 0.5,
      tip: `worker ${worker + 1}, ${one.part}: ${one.name}\n${duration(end - start)}, of it computing ${duration(one.computing[worker])}`,
    };
  });
  for (const idle of left) within.push(idle);
  return [bars, within];
}

function waiting(worker, one) {
  const parts = [
    ["worker_s", `for worker ${(one.whom ?? 0) + 1}`],
    ["wires_s", "for the network"],
    ["host_s", "for the host"],
  ].filter(([key]) => one[key] > 0);
  return `worker ${worker + 1} waits ${parts.map(([key, why]) => `${duration(one[key])} ${why}`).join(", ")}`;
}

/** Where the time of each worker goes, as a table. */
export function sharesTable(answer) {
  const columns = [
    ["computing_s", "computes"],
    ["inside_s", answer.inside ? `exchanges inside (${answer.inside})` : "exchanges inside"],
    ["wires_s", "waits for the network"],
    ["worker_s", "waits for a slower worker"],
    ["host_s", "waits for the host"],
  ].filter(
    ([key]) =>
      key === "computing_s" || key === "worker_s" || answer.shares.some((share) => share[key] > 1e-3 * answer.span_s),
  );
  const rows = answer.shares.map((share, worker) => {
    const end_s = answer.marks.end_s[worker];
    const said = (seconds) => `${duration(seconds)} · ${percent(seconds / end_s, seconds < 0.02 * end_s ? 1 : 0)}`;
    return [
      `${worker + 1}${answer.slow > 1 && worker === answer.worker ? ` (${answer.slow}× slower)` : ""}`,
      ...columns.map(([key]) => ({
        content: share[key] > 1e-12 ? said(share[key]) : "–",
        data: { share: key, value: share[key] },
      })),
      duration(end_s),
    ];
  });
  const head = [words("worker"), ...columns.map(([, name]) => name), "until its end"];
  return wide("Where the time of each worker goes", table(head, rows));
}
