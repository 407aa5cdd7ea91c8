"""Reading tables of operations, whole and damaged."""

import gzip
import importlib.util
import random
import tracemalloc

import pytest

from syncwall.explain.stragglers import slowdown_of
from syncwall.problems import InputError
from syncwall.read import pipeline_operations
from syncwall.read.pipeline_operations import OperationKind, read_operations
from tests.explain.stragglers.operation_tables import Shape, rows, simple, text

SHAPE = Shape(dp=2, stages=2, microbatches=2, steps=2)
TABLE = text(rows(SHAPE, simple))
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None


@pytest.mark.parametrize("packed", [False, True])
def test_columns(tmp_path, packed):
    path = tmp_path / ("table.csv.gz" if packed else "table.csv")
    path.write_bytes(gzip.compress(TABLE.encode()) if packed else TABLE.encode())
    table = read_operations(path)
    expected = rows(SHAPE, simple)
    assert len(table) == len(expected)
    assert [list(OperationKind)[kind] for kind in table.kind] == [row["optype"] for row in expected]
    assert table.start_s.tolist() == [row["start_ts"] for row in expected]
    assert table.microbatch.tolist() == [row["mb_id"] for row in expected]
    assert not table.problems


def test_columns_may_stand_in_any_order(tmp_path):
    path = tmp_path / "table.csv"
    lines = [",".join([*reversed(line.split(",")), "more"]) for line in TABLE.splitlines()]
    path.write_text("\n".join(lines))
    assert len(read_operations(path)) == len(rows(SHAPE, simple))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0,0,0,0,forward-compute,1", "too few cells"),
        ("0,0,0,0,forward-computer,1,1,0,0,0,0", 'did you mean "forward-compute"'),
        ("0,0,0,0,optimizer,1,-1,0,0,0,0", "not a time in seconds"),
        ("0,0,0,0,optimizer,nan,1,0,0,0,0", "not a time in seconds"),
        ("0,-1,0,0,optimizer,1,1,0,0,0,0", "out of range"),
        ("0,0,99999999999999,0,optimizer,1,1,0,0,0,0", "out of range"),
        ("x,0,0,0,optimizer,1,1,0,0,0,0", "invalid literal"),
    ],
)
def test_a_damaged_row_is_left_out_with_its_line(tmp_path, line, said):
    path = tmp_path / "table.csv"
    path.write_text(TABLE + line + "\n")
    table = read_operations(path)
    assert len(table) == len(rows(SHAPE, simple))
    (problem,) = table.problems
    assert said in problem.message
    assert problem.line == len(TABLE.splitlines()) + 1


def test_a_file_that_breaks_off_gives_what_is_there(tmp_path):
    many = text(rows(Shape(dp=4, stages=4, microbatches=8, steps=3), simple))
    packed = gzip.compress(many.encode())
    path = tmp_path / "table.csv.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    table = read_operations(path)
    assert 0 < len(table) < many.count("\n")
    assert any("damaged" in problem.message for problem in table.problems)


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", TABLE.splitlines()[0], "\0\0"])
def test_no_table_is_an_error(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(InputError):
        read_operations(path)


def test_problems_are_bounded(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE + "damage\n" * 1000)
    assert len(read_operations(path).problems) == pipeline_operations.MOST_PROBLEMS


@pytest.mark.skipif(HAS_DUCKDB, reason="DuckDB is installed")
def test_parquet_says_what_to_install(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="pip install duckdb"):
        read_operations(path)


def test_parquet_gives_the_same_table(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    source, path = tmp_path / "table.csv", tmp_path / "table.parquet"
    source.write_text(TABLE)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM read_csv('{source}')) TO '{path}'")
    assert slowdown_of(path).total == slowdown_of(source).total
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_operations(path)


def test_a_row_costs_little_memory(tmp_path):
    """11 columns of 8 bytes, twice while the arrays are made, and what lists hold in reserve."""
    path, times = tmp_path / "table.csv", 40
    header, *lines = TABLE.splitlines()
    path.write_text("\n".join([header, *(lines * times)]))
    tracemalloc.start()
    table = read_operations(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(table) == times * len(lines)
    assert peak < 2e6 + 300 * len(table)


def mutated(data: bytes, random_: random.Random) -> bytes:
    """Some bytes or pieces of `data` changed, removed, doubled."""
    found = bytearray(data)
    for _ in range(random_.randint(1, 8)):
        place, size = random_.randrange(len(found)), random_.randint(1, 40)
        change = random_.randrange(4)
        if change == 0:
            found[place] = random_.randrange(256)
        elif change == 1:
            del found[place : place + size]
        elif change == 2:
            found[place:place] = found[place : place + size]
        else:
            found[place : place + 1] = random_.choice([b",", b"\n", b"-9", b"1e308", b"nan", b"\0"])
        if not found:
            break
    return bytes(found)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_tables_never_give_a_traceback(tmp_path, seed):
    """25 mutations each of the plain and of the packed table, read and analysed."""
    random_ = random.Random(seed)
    path = tmp_path / "table.csv"
    for number in range(50):
        plain = TABLE.encode()
        data = mutated(plain, random_) if number % 2 else mutated(gzip.compress(plain), random_)
        path.write_bytes(data)
        try:
            found = slowdown_of(path)
        except InputError:
            continue
        assert found.steps >= 1
        assert found.step.ideal > 0
