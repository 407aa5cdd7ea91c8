"""Tables of measured runs on disk, and what each run may be used for.

The lists are data (`catalogue/validation/`), decided before any fit.
"""

import csv
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syncwall.catalogue import BUILT_IN
from syncwall.documents import opened_table, read_document
from syncwall.problems import InputError, Problem, did_you_mean

REQUIRED = ("id", "source", "model", "gpu", "gpus", "seq_len", "gbs")
"""Columns without which nothing can be predicted; any other may be missing."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A measured run as published."""

    cells: dict[str, str]
    file: Path
    line: int

    def text(self, column: str) -> str:
        """The cell, or nothing."""
        return (self.cells.get(column) or "").strip()

    def number(self, column: str) -> float | None:
        """The cell as a number; None if the source is silent."""
        text = self.text(column)
        return float(text) if text else None

    def whole(self, column: str, default: int = 1) -> int:
        """The cell as a whole number."""
        value = self.number(column)
        return default if value is None else round(value)

    def truth(self, column: str) -> bool | None:
        """The cell as a boolean; None if the source is silent."""
        text = self.text(column).lower()
        return None if not text else text == "true"

    @property
    def id(self) -> str:
        """Name of the run, unique in its table."""
        return self.text("id")

    @property
    def source(self) -> str:
        """Key of the publication."""
        return self.text("source")

    @property
    def grade(self) -> str:
        """A: everything known; B: one thing missing or inferred; C: coarse or doubtful."""
        return self.text("grade") or "A"

    @property
    def place(self) -> str:
        """File and line, for messages."""
        return f"{self.file.name.removesuffix('.gz')}:{self.line}"


OWN_RUNS = BUILT_IN / "runs"
"""Published runs that come with syncwall."""
LARGEST_BYTES = 200_000_000
UNCONFIRMED = "U"
"""Grade of a figure that nobody could confirm; it is not read."""

_LARGEST: Final = {
    "layers": 10_000,
    "hidden": 10**7,
    "heads": 10**6,
    "kv_heads": 10**6,
    "head_dim": 10**6,
    "ffn_hidden": 10**8,
    "vocab": 10**8,
    "seq_len": 10**9,
    "moe_experts": 10**6,
    "moe_topk": 10**4,
    "moe_ffn_hidden": 10**8,
    "gpus": 10**7,
    "gpus_per_node": 1024,
    "dp": 10**7,
    "shard_degree": 10**7,
    "tp": 10**4,
    "pp": 10**4,
    "vpp": 10**4,
    "cp": 10**4,
    "ep": 10**6,
    "etp": 10**4,
    "mbs": 10**6,
    "gbs": 10**9,
    "lora_rank": 10**5,
    "sliding_window": 10**9,
}
"""Columns of whole numbers from 1 on, with the largest that makes sense."""
_RATES: Final = (
    "moe_shared_ffn",
    "moe_dense_layers",
    "inter_gbps_per_gpu",
    "step_time_s",
    "year",
    "mem_gb",
    "tokens_per_s_per_gpu",
    "tokens_per_s",
    "samples_per_s",
    "tflops_per_gpu",
    "power_limit_w",
    "gpu_mem_gb",
)
"""Columns of other numbers."""


_FIGURES: Final = ("params_b", "active_params_b", "grad_accum", "mfu_pct", "mfu_peak_tflops", "hfu_pct")
_TEXTS: Final = (
    "family",
    "gated_mlp",
    "inter_link",
    "shard",
    "sp",
    "precision",
    "recompute",
    "recompute_detail",
    "framework",
    "options",
    "optimizer",
    "lora_targets",
    "frozen_weights",
    "tflops_kind",
    "flops_formula",
    "grade",
    "flags",
)
"""Columns of words that a prediction reads."""
_FOR_PEOPLE: Final = (
    "organisation",
    "source_ref",
    "cited",
    "url",
    "evidence",
    "arch_from",
    "intra_link",
    "measured",
    "spread",
    "mem_kind",
    "notes",
)
COLUMNS: Final = (*REQUIRED, *_LARGEST, *_RATES, *_FIGURES, *_TEXTS, *_FOR_PEOPLE)
"""All that a table may have; a column of another name is a misspelt one."""


def read_tables(path: Path | None = None) -> list[RunRow]:
    """All rows of the table or of the tables in the directory `path`; the built-in set if None."""
    chosen = path or OWN_RUNS
    if not chosen.exists():
        raise InputError.of("does not exist", file=str(chosen))
    files = _tables(chosen) if chosen.is_dir() else [chosen]
    rows = [row for file in files for row in _rows(file, optional=chosen.is_dir())]
    if not rows:
        needs = ", ".join(REQUIRED)
        raise InputError.of(f"holds no table of runs (a CSV with {needs})", file=str(chosen))
    problems = [*_numbers(rows), *_names(rows)]
    if problems:
        raise InputError(problems)
    return rows


def _tables(folder: Path) -> list[Path]:
    """All in it, which an installed package has compressed."""
    return sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])


def read_csv(
    file: Path, needed: Sequence[str], known: Sequence[str] = (), *, optional: bool = False
) -> Iterator[tuple[dict[str, str], int]]:
    """Cells and line of every row of `file`, which has the columns `needed` and others `known`, if given.

    A CSV of something else is skipped if it is `optional`, and an error if not.
    """
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise InputError.of(f"is larger than {LARGEST_BYTES // 10**6} MB", file=str(file))
        with opened_table(file) as stream:
            reader = csv.DictReader(stream, strict=True)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing and optional:
                return
            if missing:
                reason = f"has no column {', '.join(missing)}"
                raise InputError.of(reason, file=str(file), line=1, column=1)
            unknown = [name for name in reader.fieldnames or () if known and name not in known]
            if unknown:
                raise InputError([Problem(str(file), 1, 1, _unknown(name, known)) for name in unknown])
            for cells in reader:
                if None in cells:
                    raise _at(file, reader.line_num, "has more cells than the first line")
                yield {name: cell for name, cell in cells.items() if cell}, reader.line_num
    except UnicodeDecodeError as error:
        raise InputError.of(f"is not UTF-8 text: {error}", file=str(file)) from None
    except csv.Error as error:
        raise _at(file, reader.reader.line_num, f"cannot be read as CSV: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError.of(f"cannot be read: {said}", file=str(file)) from None


def _unknown(name: str, known: Sequence[str]) -> str:
    return f'"{name}" is no column of a table of runs{did_you_mean(name, known)}'


def _rows(file: Path, *, optional: bool) -> Iterator[RunRow]:
    """Rows of one file without those that are unconfirmed."""
    for cells, line in read_csv(file, REQUIRED, COLUMNS, optional=optional):
        row = RunRow(cells, file, line)
        if row.grade != UNCONFIRMED:
            yield row


def _at(file: Path, line: int, message: str) -> InputError:
    return InputError.of(message, file=str(file), line=max(line, 1), column=1)


def _numbers(rows: list[RunRow]) -> Iterator[Problem]:
    """Cells that should be numbers and are not."""
    for row in rows:
        for name, most in _LARGEST.items():
            if not _is_whole(row.text(name), most):
                message = f'"{row.text(name)}" in column {name} is not a whole number from 1 to {most:,}'
                yield Problem(str(row.file), row.line, 1, message)
        for name in _RATES:
            if not _is_number(row.text(name)):
                message = f'"{row.text(name)}" in column {name} is not a positive number'
                yield Problem(str(row.file), row.line, 1, message)


def _names(rows: list[RunRow]) -> Iterator[Problem]:
    """Rows without a name, or with the name of another."""
    seen: dict[str, RunRow] = {}
    for row in rows:
        for name in ("id", "source"):
            if not row.text(name):
                yield Problem(str(row.file), row.line, 1, f"has no {name}")
        first = seen.setdefault(row.id, row)
        if row.id and first is not row:
            message = f'has the id "{row.id}" of {first.place}'
            yield Problem(str(row.file), row.line, 1, message)


def _is_whole(text: str, most: int) -> bool:
    if not text:
        return True
    try:
        return 1 <= float(text) <= most and float(text).is_integer()
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    if not text:
        return True
    try:
        return float(text) == 0 or 1e-9 <= float(text) < 1e12
    except ValueError:
        return False


_FOLDER = BUILT_IN / "validation"


class RowUse(StrEnum):
    """What a row is used for."""

    CALIBRATION = "calibration"
    """A fit may read it."""
    STRUCTURE = "structure"
    """No fit reads it, but which terms the model has was chosen with its errors in view; the width
    of intervals is learned on it, too, leaving out whole organisations."""
    JUDGE = "judge"
    """Nobody looks at it; it is scored once for each release."""
    COMPOSED = "composed"
    """No fit reads it; a time put together from a few others, not a measurement of its own."""

    @property
    def is_held_out(self) -> bool:
        """True if no fit reads it and it is a measurement of its own."""
        return self in (RowUse.STRUCTURE, RowUse.JUDGE)


def corpus_part(row: RunRow) -> RowUse:
    """The part of the corpus that a row belongs to; a source that nobody listed is a judge."""
    lists = _document("split.yaml")
    composed = lists["composed"].get(row.source)
    if composed and row.whole("gpus") <= composed["gpus_at_most"]:
        return RowUse.COMPOSED
    if row.source in lists["calibration"]:
        return RowUse.CALIBRATION
    groups = lists["halves"].get(row.source, ())
    mine = [[row.text("model")], [row.text("model"), row.whole("gpus")]]
    if any(group in groups for group in mine):
        return RowUse.CALIBRATION
    known = row.source in lists["structure"] or groups or composed
    return RowUse.STRUCTURE if known else RowUse.JUDGE


def organisation_of(source: str) -> str:
    """Who published `source`; most have published one."""
    several = _document("split.yaml")["organisations"].items()
    return next((name for name, sources in several if source in sources), source)


def row_doubt(row: RunRow) -> str | None:
    """Why a row is not taken as printed; None if it is."""
    if row.grade == "C":
        return row.text("flags") or "graded as coarse or doubtful"
    listed = _doubtful().get(row.id)
    return listed or (STALLED if _stalled(row) else None)


STALLED = "a stall of 0.5 to 1.1 s in every micro batch, which no twin of the layout shows"


def _stalled(row: RunRow) -> bool:
    """A regime of one cluster: pipelines with tp of 8 or more that wait half a second and longer.

    Source: 245 rows of the ultra-scale playbook, none elsewhere; see docs/explanation/accuracy.md.
    """
    tp, pp, step = row.whole("tp"), row.whole("pp"), row.number("step_time_s")
    if row.text("framework") != "nanotron" or tp < 8 or pp == 1 or not step:
        return False
    slots = row.whole("gbs") / (row.whole("mbs") * row.whole("dp")) + pp - 1
    usual_s = row.whole("layers") / pp * (2 + 3 * tp) * 1e-3
    return step / slots > 0.55 + usual_s


@lru_cache(maxsize=1)
def _doubtful() -> dict[str, str]:
    groups = _document("doubtful.yaml")
    return {name: group["reason"] for group in groups.values() for name in group["ids"]}


@lru_cache(maxsize=4)
def _document(name: str) -> Any:
    return read_document(_FOLDER / name).value
