"""What every verb prints: as recorded at 80 columns, and whole and in order at four widths."""

import re
from collections.abc import Iterator

import pytest

from syncwall.show.blocks import (
    Block,
    Breakdown,
    Bullets,
    Code,
    Figure,
    Lines,
    Paragraph,
    Table,
    Verdict,
    View,
)
from tests.show.screens import COMMANDS, PICTURE, WIDTH, WIDTHS, golden, picture, screen, view

NUMBER = re.compile(r"[−+$]?\d[\d,]*\.?\d*")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_as_recorded(name):
    """After a change that is meant: `python -m tests.show.screens`, and look at the difference."""
    assert screen(view(name), WIDTH) == golden(name).read_text()


def texts(block: Block) -> Iterator[str]:
    """Every text of a block that must be on the screen."""
    match block:
        case Verdict(lines, about):
            yield from (*lines, about)
        case Lines(_, lines):
            yield from lines
        case Bullets(items):
            yield from items
        case Paragraph(text) | Code(text):
            yield text
        case Table():
            kept = [n for n, name in enumerate(block.head) if name not in block.spare]
            for row in block.rows:
                yield from (row[n] for n in kept if n < len(row))
        case Breakdown():
            for one in block.parts:
                yield from (one.name, block.text(one.value), f"{one.value / block.whole:.1%}")
            yield block.text(block.whole)
        case Figure(_, caption, lines) if lines is not None:
            yield caption


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_and_no_name_is_cut(name):
    for width in WIDTHS:
        shown = screen(view(name), width)
        numbers, words = set(NUMBER.findall(shown)), set(shown.split())
        for block in view(name).blocks:
            for text in texts(block):
                assert set(NUMBER.findall(text)) <= numbers, (width, text)
                assert set(text.split()) <= words, (width, text)
        assert "…" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_its_blocks_in_order_at_every_width(name):
    """So that what each block looks like at a width, which test_terminal says, is all there is."""
    whole = view(name)
    for width in WIDTHS:
        shown, at = screen(whole, width), 0
        for block in whole.blocks:
            lines = screen(View(whole.title, (block,)), width).strip("\n")
            at = shown.find(lines, at)
            assert at >= 0, (width, lines)
            at += len(lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wider_terminal_never_takes_more_lines(name):
    counts = [len(screen(view(name), width).splitlines()) for width in WIDTHS]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_lines_fit_the_terminal_unless_one_word_is_longer(name):
    for width in WIDTHS:
        for line in screen(view(name), width).splitlines():
            words = line.split()
            assert len(line) <= width or max(map(len, words)) > width - 20, (width, line)


def test_the_picture_of_two_clusters_is_as_drawn():
    """After a change that is meant: `python -m tests.show.screens`, and look at it."""
    assert picture(view("compare-jobs")) == PICTURE.read_text()


def test_every_verb_that_answers_is_among_the_screens():
    from syncwall.show.schema import VERBS

    words = [
        re.sub(r"--(?=work)|examples/(?=rl/|islands/)", "", command).replace("/", " ").split()
        for command in COMMANDS.values()
    ]
    shown = {" ".join(one[:count]) for one in words for count in (1, 2, 3)}
    shown |= {name.replace("-", " ") for name in COMMANDS}  # a gate is `compare` of two recordings
    on_machines = ("capture", "measure", "lab", "watch")
    assert {verb for verb in VERBS if not verb.startswith(on_machines)} <= shown
