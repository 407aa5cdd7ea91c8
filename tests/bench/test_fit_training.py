"""The fit of software constants: what it reads, what it writes, and that it is at an optimum."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.fit.files import readable
from bench.fit.register import CONTACTS
from bench.fit.search import Values
from bench.fit.training import MOST_ROWS, PARAMETERS, TRAINED, Problem, patched, texts_of

from syncwall.cost.calibration import calibration
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from syncwall.validate import mapping
from syncwall.validate.table import RowUse, corpus_part, read_tables, row_doubt
from tests.validate.samples import CORPUS, needs_corpus, row

SECOND = CORPUS.parent / "runs_second"
FITS = Path(__file__).parents[2] / "bench" / "fit"
OWN_RULES = {
    "stalls.py": {"corpus_part"},
    "intervals.py": {"corpus_part", "row_doubt"},
    "register.py": {"row_doubt"},
    "pairs.py": {"corpus_part", "row_doubt"},
}
"""Stalls are in doubt themselves; residuals and pairs fit no price: they are what the model gets wrong, row
by row, with the part of each. All others take `readable` rows only."""


def current() -> Values:
    """The constants that the catalogue has now."""
    fits = {kind: calibration(lookup.device(names[0])) for kind, names in TRAINED.items()}
    hopper, torch = fits["Hopper"], framework_or_default("pytorch").efficiency
    torch_host = framework_or_default("pytorch").host
    nanotron, core = framework_or_default("nanotron"), framework_or_default("megatron-core")
    values: Values = {
        **{f"training of {kind}": fit.training["2020-01"] for kind, fit in fits.items()},
        **{f"torch efficiency on {one}": min(torch[one].items())[1] for one in ("ampere", "hopper")},
        "fp8 over its peak": hopper.gemm.low_precision[Dtype.FP8],
        "nic": hopper.network.nic,
        "contention": hopper.network.contention,
        "flash-1": hopper.attention.flash_1_ratio,
        "megatron traffic": core.traffic,
        "megatron-core wait": core.host.per_wait_s * 1e3,
        "torch host": torch_host.per_operation_s * 1e6,
        "torch split operation": torch_host.per_split_operation_s * 1e6,
        "nanotron ring rank": framework_or_default("nanotron").ring_rank_s * 1e6,
        "nanotron host": nanotron.host.per_operation_s * 1e6,
        "nanotron pipelined host": nanotron.host.pipelined_per_tensor_rank_s * 1e6,
        "nanotron pipelined node": nanotron.host.pipelined_per_tensor_node_s * 1e6,
    }
    for name in PARAMETERS:
        family, _, word = name.partition(" ")
        if name not in values and word == "efficiency":
            values[name] = min(framework_or_default(family).efficiency["ampere"].items())[1]
        elif name not in values and word == "traffic":
            values[name] = framework_or_default(family).traffic
    return {name: float(f"{values[name]:.6g}") for name in PARAMETERS}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_fits_read_runs_in_one_place_and_those_that_fit_take_calibration_rows_only():
    names = {path.name: set(imports(path)) for path in FITS.glob("*.py")}
    tables = {name for name, some in names.items() if "syncwall.validate.table.read_tables" in some}
    assert tables == {"files.py"}
    readers = {name for name, some in names.items() if "bench.fit.files.rows_of" in some}
    fitting = {"sites.py", "training.py", "unsaid.py"}
    assert readers == fitting | set(OWN_RULES)
    for name in fitting:
        assert "bench.fit.files.readable" in names[name], name
    for name, needed in OWN_RULES.items():
        assert needed <= {one.rsplit(".", 1)[-1] for one in names[name]}
    for path in FITS.glob("*.py"):
        assert "data/runs" not in path.read_text(), path.name


def test_rows_that_decide_constants_are_calibration_rows_without_doubt():
    rows = [row(), row(source="internevo", grade="C"), row(source="internevo"), row(source="new")]
    assert list(readable(rows)) == ["internevo"]
    assert [one.grade for one in readable(rows)["internevo"]] == ["A"]
    assert list(readable(rows, also=["new"])) == ["internevo", "new"]


def test_a_held_out_or_doubtful_row_is_never_a_case():
    rows = [row(), row(source="internevo", grade="C"), row(source="internevo")]
    problem = Problem(rows)
    assert {source: len(cases) for source, cases in problem.cases.items()} == {"internevo": 1}


@pytest.mark.slow
@needs_corpus
def test_the_fit_sees_only_calibration_rows_that_are_not_doubtful(monkeypatch):
    """Checked where a row becomes a case, before anything of it is predicted."""
    plain, seen = mapping.case_of, []

    def watched(one):
        assert corpus_part(one) is RowUse.CALIBRATION, one.id
        assert row_doubt(one) is None, one.id
        seen.append(one.id)
        return plain(one)

    monkeypatch.setattr(mapping, "case_of", watched)
    problem = Problem([*read_tables(CORPUS), *read_tables(SECOND), *read_tables(CONTACTS)])
    assert len(seen) > 500
    cases = [case for cases in problem.cases.values() for case in cases]
    assert {case.row.id for case in cases} <= set(seen)
    assert {source for one in PARAMETERS.values() for source in one.sources} <= set(problem.cases)
    for source, cases in problem.read.items():
        assert 0 < len(cases) <= MOST_ROWS
        assert all(case in problem.cases[source] for case in cases)


def changed(values: Values) -> list[Path]:
    return [path for path, text in texts_of(values).items() if path.read_text() != text]


def test_writing_what_the_catalogue_has_changes_nothing():
    assert changed(current()) == []


def test_other_values_would_change_files():
    values = current()
    for name in PARAMETERS:
        assert changed(values | {name: values[name] * 1.5}), name


def test_values_are_patched_only_inside_the_block():
    before = current()
    with patched(before | {"nic": 0.5, "nanotron host": 50.0}):
        inside = current()
    assert (inside["nic"], inside["nanotron host"]) == (0.5, 50.0)
    assert {n for n in before if inside[n] != before[n]} == {"nic", "nanotron host"}
    assert current() == before


def test_constants_are_inside_their_limits():
    for name, value in current().items():
        least, most = PARAMETERS[name].limits
        assert least <= value <= most, name


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem([*read_tables(CORPUS), *read_tables(SECOND)])


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nanotron host", "fp8 over its peak", "training of Hopper", "nic"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_catalogue_is_at_an_optimum(name, factor, problem):
    values = current()
    moved = values | {name: values[name] * factor}
    assert problem.loss(moved) >= problem.loss(values) * (1 - 1e-6)
