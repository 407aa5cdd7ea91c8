"""What was recorded, as a screen and as a record."""

import json
from dataclasses import replace

import pytest

from syncwall.records import json_text
from syncwall.show.capture import capture_view
from syncwall.show.schema import schema
from syncwall.show.write.terminal import rendered
from syncwall.work.program import CapturedStep, Note, NoteKind, SourceLocation
from tests.work.recorded import decoder

PROGRAM = decoder()


def screen(program, width=120):
    view = capture_view(CapturedStep(program, "run.work.json.gz", 12.3))
    return [line.plain.rstrip() for line in rendered(view, width)]


def test_the_screen_says_what_was_recorded():
    lines = "\n".join(screen(PROGRAM))
    assert "2,721 kernels and 64 collectives a rank" in lines
    assert "all-gather" in lines
    assert "27.9 GB" in lines  # 64 times 436 MB
    assert "8.03B parameters · 8M tokens" in lines
    assert "syncwall predict --work run.work.json.gz" in lines
    assert "padding" in lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_screen(width):
    for line in screen(PROGRAM, width):
        assert len(line) <= width or max(map(len, line.split())) > width - 20, line


@pytest.mark.parametrize(("share", "is_said"), [(0.2, True), (0.01, False)])
def test_the_verdict_says_how_much_is_not_known(share, is_said):
    moved = PROGRAM.to_dict()["ranks"][0]["memory_traffic_bytes"]
    note = Note(NoteKind.UNKNOWN, "mine.kernel", SourceLocation("", "train.py:3"), 1, 0.0, share * moved)
    lines = "\n".join(screen(replace(PROGRAM, notes=(note,))))
    assert ("of the work is not known" in lines) is is_said
    assert "train.py:3" in lines


def test_a_record_follows_its_schema():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    record = json.loads(json_text(CapturedStep(PROGRAM, "a.gz", 1.0).to_dict()))
    jsonschema.validate(record, schema("capture"))
    assert record["ranks"][0]["communication"][0]["calls"] == 64
    assert record["notes"][0]["bytes_share"] == pytest.approx((4e8 - 1e6) / (64 * 4.36e8))
