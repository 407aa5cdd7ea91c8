import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.problems import InputError
from syncwall.validate.accuracy_report import validate
from syncwall.validate.table import OWN_RUNS, REQUIRED, RunRow, read_tables
from tests.validate.samples import CELLS, CORPUS, needs_corpus, table

TABLE = table({"id": "a"}, {"id": "b", "gpus": "32"}, {"id": "c", "pp": "2", "vpp": ""})


def written(folder: Path, text: str, name: str = "runs.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    """Why a table is refused; its name if it is not, and every row was predicted or skipped."""
    try:
        report = validate(path)
    except InputError as refused:
        return str(refused)
    assert len(report.outcomes) + len(report.skipped) == report.rows >= 1
    return path.name


def test_cells_are_typed_and_silence_is_none():
    one = RunRow({"tp": "8", "sp": "TRUE", "mbs": "", "mem_gb": " 71.5 "}, Path("x.csv"), 4)
    assert (one.whole("tp"), one.whole("mbs"), one.whole("gbs", 7)) == (8, 1, 7)
    assert (one.number("mem_gb"), one.number("mbs")) == (71.5, None)
    assert (one.truth("sp"), one.truth("gated_mlp")) == (True, None)
    assert (one.grade, one.place) == ("A", "x.csv:4")


def test_a_directory_is_all_its_tables_of_runs(tmp_path: Path):
    written(tmp_path, table({"id": "a"}), "one.csv")
    written(tmp_path, table({"id": "b"}, {"id": "c", "grade": "U"}), "two.csv")
    written(tmp_path, "something,else\n1,2\n", "three.csv")
    assert [one.place for one in read_tables(tmp_path)] == ["one.csv:2", "two.csv:2"]


def test_a_table_saved_by_a_spreadsheet_is_read(tmp_path: Path):
    (tmp_path / "runs.csv").write_text(table({}), encoding="utf-8-sig")
    assert read_tables(tmp_path)[0].id == CELLS["id"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,source\na,b\n", "runs.csv:1:1  has no column model, gpu, gpus,"),
        ("", "has no column id"),
        (",".join(REQUIRED) + "\n", "holds no table of runs (a CSV with id,"),
        (
            table({"gpus": "many"}),
            'runs.csv:2:1  "many" in column gpus is not a whole number from 1',
        ),
        (table({}, {"id": "b", "tp": "0"}), 'runs.csv:3:1  "0" in column tp is not a whole number'),
        (table({"layers": "1e9"}), "whole number from 1 to 10,000"),
        (table({"step_time_s": "-1"}), '"-1" in column step_time_s is not a positive number'),
        (table({"step_time_s": "nan"}), '"nan" in column step_time_s is not a positive number'),
        (table({}, {}), 'runs.csv:3:1  has the id "ours-8b-16" of runs.csv:2'),
        (table({"id": ""}), "runs.csv:2:1  has no id"),
        (table({}).rstrip() + ",1\n", "runs.csv:2:1  has more cells than the first line"),
        (table({}) + '"open\n', "runs.csv:3:1  cannot be read as CSV"),
        (
            table({"shards": "zero3"}),
            'runs.csv:1:1  "shards" is no column of a table of runs; did you mean "shard"?',
        ),
    ],
)
def test_a_broken_table_is_refused_with_its_line(text, message, tmp_path: Path):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_tables(path)
    assert message in str(refused.value)


def test_a_table_that_is_not_there(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        read_tables(tmp_path / "no.csv")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1), length=st.integers(0, 20), junk=st.binary(max_size=12))
def test_damaged_tables_are_validated_or_refused(at, length, junk, tmp_path: Path):
    raw = TABLE.encode()
    start = int(at * len(raw))
    path = tmp_path / "runs.csv"
    path.write_bytes(raw[:start] + junk + raw[start + length :])
    assert "runs.csv" in refusal(path)


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from(
            [
                *CELLS,
                "vpp",
                "cp",
                "ep",
                "etp",
                "family",
                "moe_experts",
                "gpus_per_node",
                "options",
                "inter_gbps_per_gpu",
                "head_dim",
                "shard_degree",
                "sp",
                "dp",
            ]
        ),
        st.sampled_from(["", "1", "2", "3", "7", "64", "9999", "moe", "nanotron", "x", "true", "é"])
        | st.integers(1, 10**6).map(str),
        max_size=4,
    )
)
def test_strange_cells_are_predicted_or_skipped_or_refused(changes, tmp_path: Path):
    path = written(tmp_path, table({"id": "a"}, {"id": "b"} | changes))
    assert "runs.csv" in refusal(path)


def test_the_built_in_tables_are_facts_with_a_citation():
    rows = read_tables()
    assert len(rows) >= 800
    assert all(row.text("cited") and row.grade in {"A", "B", "C"} for row in rows)
    for path in OWN_RUNS.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            assert {line["source"] for line in csv.DictReader(stream)} == {path.stem}


@needs_corpus
def test_the_corpus_has_5086_rows():
    assert len(read_tables(CORPUS)) == 5086


def test_a_table_may_be_compressed_as_in_an_installed_package(tmp_path):
    plain = read_tables(written(tmp_path, TABLE))
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "runs.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    again = read_tables(packed)
    assert [row.cells for row in again] == [row.cells for row in plain]
    assert again[0].place == plain[0].place


@pytest.mark.parametrize("raw", [b"no gzip", gzip.compress(TABLE.encode())[:-20]])
def test_a_broken_compressed_table_is_refused(tmp_path, raw):
    (tmp_path / "runs.csv.gz").write_bytes(raw)
    with pytest.raises(InputError, match="cannot be read"):
        read_tables(tmp_path)
