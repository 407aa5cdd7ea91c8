"""Pages on narrow and wide terminals."""

import io

import pytest
from rich.console import Console, RenderableType
from rich.table import Table

from syncwall.plan.fabric.answer import plan_fabric
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.network.needed import needed
from syncwall.plan.network.targets import Limits
from syncwall.plan.reference import Said, reference
from syncwall.plan.search import search
from syncwall.plan.wall.found import wall_of
from syncwall.show.fabric import fabric_page
from syncwall.show.headed import Fitting, Headed
from syncwall.show.layouts import Plan, layouts_page
from syncwall.show.requirement import requirement_page
from syncwall.show.wall import wall_page

FLAGS = {
    "model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": "4", "layout.tp": "2",
    "layout.global_batch": "64", "seq": "4096",
}  # fmt: skip


def printed(page: RenderableType, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(page)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_text_goes_on_under_itself():
    lines = printed(Headed("Why", "one two three " * 8), 40)
    assert lines[0].startswith("Why       one two")
    assert len(lines) > 2
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert " ".join(lines).split()[1:] == ["one", "two", "three"] * 8


def test_a_table_that_is_too_wide_gives_way():
    wide, narrow = Table("many columns " * 5), Table("few")
    assert any("many columns" in line for line in printed(Fitting(wide, narrow), 80))
    assert any("few" in line for line in printed(Fitting(wide, narrow), 40))


@pytest.fixture(scope="module")
def pages() -> dict[str, RenderableType]:
    start = reference(Said(None, FLAGS))
    run = start.run
    found = search(run.model, run.cluster, seq=run.seq, global_batch=64, pinned={"cp": 1})
    wiring = wiring_of(run.cluster)
    return {
        "layouts": layouts_page(Plan(run, found, found.best(5), "fastest", 64)),
        "wall": wall_page(wall_of(start, 2**14), start),
        "network": requirement_page(needed(start, [32, 256, 2048], Limits()), start),
        "fabric": fabric_page(plan_fabric(wiring, run.gpus, prediction=start.prediction)),
    }


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("name", ["layouts", "wall", "network", "fabric"])
def test_pages_fit_a_terminal(pages, name, width):
    """Nothing is cut, and no line starts at the edge but a head: what is wrapped is indented."""
    lines = printed(pages[name], width)
    assert lines[0].startswith("Verdict   ")
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    for line in lines:
        head, rest = line[:10], line[10:]
        assert not line or head.startswith((" ", "▸")) or (head.rstrip() and rest), line
