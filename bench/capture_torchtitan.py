"""Runs that torchtitan published, as a script: `python bench/capture_torchtitan.py RUNS [--check]`.

RUNS is a folder or file of published runs. Each row of torchtitan in bf16, without its asynchronous
tensor parallelism, is a call of capture_torchtitan_script.py: recorded, priced on the machine of
the row, and printed beside the description's prediction and what was measured. With `--check` the
exit code is 1 if a recorded step is further off than the described one by more than `WORSE`.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from syncwall.answer.program import predict_program
from syncwall.capture.script import Script, record_script
from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import ValidationCase, cases_of
from syncwall.validate.table import read_tables

SCRIPT = Path(__file__).parent / "capture_torchtitan_script.py"
WORSE: Final = 0.02


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, with --check 1 if recording costs accuracy."""
    parser = argparse.ArgumentParser(description="Runs of torchtitan, as a script.")
    parser.add_argument("runs", type=Path)
    parser.add_argument("names", nargs="*", help="rows; all if none are named")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    worse, errors = 0.0, []
    for case in cases(chosen.runs):
        if chosen.names and case.row.id not in chosen.names:
            continue
        described = outcomes([case])[0].ratio - 1
        error = recorded_s(case) / case.measured_s - 1
        errors.append((abs(described), abs(error)))
        worse = max(worse, abs(error) - abs(described))
        print(
            f"{case.row.id:30} measured {case.measured_s:7.3f} s, described {described:+6.1%}, "
            f"recorded {error:+6.1%}",
            flush=True,
        )
    described, recorded = (statistics.mean(column) for column in zip(*errors, strict=True))
    print(f"mean error: described {described:.1%}, recorded {recorded:.1%}")
    return 1 if chosen.check and worse > WORSE else 0


def cases(runs: Path) -> Iterator[ValidationCase]:
    """Rows that the script can be told to run."""
    for case in cases_of(row for row in read_tables(runs) if row.source == "torchtitan"):
        row = case.row
        plain = row.text("precision") == "bf16" and "asyncTP" not in row.text("options")
        if plain and row.text("mbs") and row.text("pp") == row.text("cp") == "1":
            yield case


def recorded_s(case: ValidationCase) -> float:
    """Seconds of the step that the script does."""
    row, model = case.row, case.model
    columns = {"tp": "tp", "batch": "mbs", "length": "seq_len", "layers": "layers",
               "width": "hidden", "heads": "heads", "kv-heads": "kv_heads", "hidden": "ffn_hidden",
               "recompute": "recompute"}  # fmt: skip
    words = [word for flag, column in columns.items() for word in (f"--{flag}", row.text(column))]
    words += ["--vocabulary", str(model.vocab)]
    words += ["--compile"] if "torch.compile" in row.text("options") else []
    program = record_script(Script(str(SCRIPT), tuple(words)), world_size=row.whole("gpus"))
    return float(predict_program(program, case.cluster, case.software).step_s)


if __name__ == "__main__":
    sys.exit(main())
