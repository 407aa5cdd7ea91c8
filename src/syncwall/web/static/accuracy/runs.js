// Published runs, as a scatter draws them.

/** The runs of an answer as objects. */
export function runsOf({ words, parts, columns, runs }) {
  return runs.map((line) => {
    const run = Object.fromEntries(columns.map((name, number) => [name, line[number]]));
    for (const name of ["source", "model", "device", "framework"]) run[name] = words[name][run[name]];
    run.part = parts[run.part];
    run.doubt = run.doubt < 0 ? null : words.doubt[run.doubt];
    run.ratio = run.predicted_s / run.measured_s;
    return run;
  });
}
