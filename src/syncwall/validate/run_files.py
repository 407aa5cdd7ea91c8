"""Run files that say how fast the run was, as cases to validate.

Holds `run_file_cases`. Their times are those of `predict` on the same file.
"""

from pathlib import Path
from typing import Final

from syncwall.answer.prediction import predict
from syncwall.describe.known import KnownRun
from syncwall.describe.reading import read
from syncwall.validate.mapping import ValidationCase
from syncwall.validate.table import RunRow

_SUFFIXES: Final = (".yaml", ".yml")


def run_file_cases(path: Path) -> list[ValidationCase]:
    """The cases of a run file, or of all in a directory that have the key `measured`."""
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES)
        return [_case(one) for one in files if "measured:" in one.read_text(errors="replace")]
    return [_case(path)] if path.suffix in _SUFFIXES else []


def _case(path: Path) -> ValidationCase:
    known = read(path, KnownRun)
    found = predict(known)
    run, layout = found.run, found.run.layout
    cells = {
        "id": path.stem, "source": path.absolute().parent.name, "model": run.model.name,
        "gpu": run.cluster.device.name, "gpus": run.gpus, "seq_len": run.seq,
        "gbs": layout.global_batch, "mbs": layout.micro_batch, "tp": layout.tp, "pp": layout.pp,
        "framework": run.software.framework,
    }  # fmt: skip
    row = RunRow({name: str(cell) for name, cell in cells.items()}, path, 1)
    return ValidationCase(
        row, run.model, run.cluster, run.software, run.seq, [layout], (),
        found.seconds_of(known.measured), tuple(found.assumed),
    )  # fmt: skip
