"""Views on narrow and wide terminals: nothing is cut, nothing is lost but spare columns."""

from hypothesis import given
from hypothesis import strategies as st

from syncwall.show.blocks import Breakdown, Bullets, Lines, Share, Table, Verdict, View
from syncwall.show.write.terminal import rendered

words = st.text("abcdefghij", min_size=1, max_size=14)
phrases = st.lists(words, min_size=1, max_size=6).map(" ".join)
numbers = st.floats(0, 1e9).map(lambda value: f"{value:,.1f} GB")


def lines(*blocks, width: int = 80) -> list[str]:
    return [line.plain for line in rendered(View("", blocks), width)]


@st.composite
def tables(draw) -> Table:
    count = draw(st.integers(2, 9))
    words = draw(st.integers(1, count - 1))
    head = tuple(f"column{n}" for n in range(count))
    cells = [phrases if n < words else numbers for n in range(count)]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=4))
    spare = draw(st.lists(st.sampled_from(head[1:]), unique=True))
    label = draw(st.sampled_from(["", "Next"]))
    return Table(head, tuple(rows), words, label=label, spare=tuple(spare))


@given(tables(), st.integers(40, 200))
def test_every_cell_of_a_table_is_whole_at_every_width(table, width):
    text = " ".join(" ".join(lines(table, width=width)).split())
    for row in table.rows:
        for name, cell in zip(table.head, row, strict=True):
            if name not in table.spare:
                assert all(word in text.split() for word in cell.split())


@given(tables(), st.integers(60, 200))
def test_no_line_of_a_table_is_longer_than_the_terminal(table, width):
    assert all(len(line) <= width for line in lines(table, width=width))


@given(tables())
def test_spare_columns_stay_where_there_is_room(table):
    text = "\n".join(lines(table, width=2000))
    for row in table.rows:
        assert all(cell in text for cell in row)


def test_the_column_of_least_worth_goes_first():
    table = Table(("name", "much", "little"), (("a" * 30, "1 GB", "2 GB"),), spare=("little", "much"))
    assert lines(table, width=42) == [f"  {'name':<30}  much", f"  {'a' * 30}  1 GB"]


def test_text_goes_on_under_itself_and_a_number_keeps_its_unit():
    shown = lines(Lines("Why", ("it takes 12.5 s and " * 6,)), width=40)
    assert shown[0].startswith("Why       it takes")
    assert all(line.startswith(" " * 10) for line in shown[1:])
    assert not any(line.endswith("12.5") for line in shown)


def test_a_key_of_a_layout_keeps_its_number():
    for width in range(40, 80):
        shown = lines(Lines("Run", ("tp 8, pp 16, micro batch 1, zero1, " * 6,)), width=width)
        assert not any(line.endswith(("tp", "pp", "batch")) for line in shown)


def test_a_name_longer_than_the_terminal_is_left_whole():
    name = "examples/" + "x" * 90
    assert any(name in line for line in lines(Verdict((f"see {name} there",)), width=60))


def test_a_row_of_one_cell_is_a_heading_for_those_to_the_right_of_it():
    shown = lines(Table(("", "GB/s"), (("inside a node",), ("NVLink", "450"))))
    assert shown == ["            GB/s", "  inside a node", "    NVLink   450"]


def test_a_table_without_room_puts_cells_under_their_row():
    table = Table(("GPUs", "32", "64"), (("step",), ("mean", "12,345,678 ms", "23,456,789 ms")))
    under = ["      32: 12,345,678 ms", "      64: 23,456,789 ms"]
    assert lines(table, width=26) == ["  GPUs", "  step", "    mean", *under]


@given(st.lists(st.tuples(words, st.floats(0.001, 100)), min_size=1, max_size=8), st.integers(60, 200))
def test_a_ledger_names_every_part_with_its_share(parts, width):
    whole = sum(value for _, value in parts)
    ledger = Breakdown("where the time goes", tuple(Share(*one) for one in parts), whole)
    shown = lines(ledger, width=width)
    assert len(shown) == len(parts) + 2
    assert all(len(line) <= width for line in shown)
    for (name, value), line in zip(parts, shown[1:], strict=False):
        assert line.split()[0] == name
        assert line.endswith(f"{value / whole:.1%}")
    assert shown[-1].endswith("100%")


def test_labelled_blocks_stand_close_and_others_apart():
    shown = lines(Verdict(("yes",)), Lines("Why", ("so",)), Lines("Next", ("go",)), Bullets(("a",)))
    assert shown == ["Verdict   yes", "", "Why       so", "Next      go", "", "  - a"]
