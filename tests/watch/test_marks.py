"""Marks come out as they went in; what was overwritten is counted, what is no ring is refused."""

import os
import threading
import time

import pytest

from syncwall.watch.rings import MarkKind, Ring, RingReader, leave_error, read_error


@pytest.fixture
def ring(tmp_path):
    made = Ring(tmp_path / "rank-3.ring", rank=3, slots=64)
    yield made
    made.close()


def test_marks_are_read_in_order_and_once(ring):
    reader = RingReader(ring.path)
    assert (reader.rank, reader.pid, reader.read()) == (3, os.getpid(), [])
    before_s = time.time()
    ring.mark(MarkKind.DATA_BEGIN)
    ring.mark(MarkKind.LOSS, 2.5, 7)
    first, second = reader.read()
    assert (first.number, first.kind, second.value, second.argument) == (
        0,
        MarkKind.DATA_BEGIN,
        2.5,
        7,
    )
    assert first.time_ns <= second.time_ns
    assert before_s - 1e-3 <= reader.epoch_s(first.time_ns) <= time.time() + 1e-3
    assert reader.read() == []
    assert reader.lost == 0


def test_overwritten_marks_are_counted(ring):
    reader = RingReader(ring.path)
    for number in range(200):
        ring.mark(MarkKind.LOSS, float(number))
    found = reader.read()
    assert [mark.value for mark in found] == [float(n) for n in range(200 - 63, 200)]
    assert reader.lost == 200 - 63


def test_a_reader_that_keeps_up_loses_nothing(ring):
    reader = RingReader(ring.path)
    for _ in range(130):
        ring.mark(MarkKind.LOSS)
        reader.read()
    assert reader.lost == 0


def test_threads_never_share_a_slot(ring):
    reader, seen = RingReader(ring.path), []
    threads = [
        threading.Thread(target=lambda: [ring.mark(MarkKind.LOSS) for _ in range(15)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen += reader.read()
    assert [mark.number for mark in seen] == list(range(60))


def test_a_mark_that_never_comes_is_given_up(ring):
    """Such as after Ctrl-C between its number and its slot."""
    reader = RingReader(ring.path)
    ring.mark(MarkKind.LOSS)
    memory = bytearray(ring._memory[64:96])
    ring.mark(MarkKind.LOSS)
    ring.mark(MarkKind.LOSS)
    ring._memory[96:128] = memory  # the second slot holds the first mark
    assert [mark.number for mark in reader.read()] == [0]
    assert [mark.number for mark in reader.read()] == [2]
    assert reader.lost == 1


@pytest.mark.parametrize("content", [b"x" * 4096, b"SYNCWALL" + b"\xff" * 4088, b"SYNCWALL"])
def test_what_is_no_ring_is_refused(tmp_path, content):
    path = tmp_path / "rank-0.ring"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="ring of marks"):
        RingReader(path)


def test_a_full_disk_is_told_at_once_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        Ring(tmp_path / "rank-0.ring", rank=0)
    assert not list(tmp_path.iterdir())


def test_a_closed_ring_takes_marks_silently(ring):
    ring.close()
    ring.mark(MarkKind.LOSS)


def test_an_exception_is_left_beside_the_ring_as_one_harmless_line(tmp_path):
    ring = tmp_path / "rank-0-1.ring"
    assert read_error(ring) == ""
    leave_error(ring, RuntimeError("\n\x1b[31mout of\x07 memory\u202e\nsecond line"))
    assert read_error(ring) == "RuntimeError: [31mout of memory"
    other = tmp_path / "rank-1-2.ring"
    leave_error(other, ValueError("\x1b[31mno\x07 such \u202ekey" + "y" * 999))
    assert read_error(other).startswith("ValueError: [31mno such keyy")
    assert len(read_error(other)) == 200


def test_an_error_that_somebody_else_wrote_is_bounded_and_no_link_is_followed(tmp_path):
    (tmp_path / "secret").write_text("token")
    (tmp_path / "a.error").symlink_to(tmp_path / "secret")
    assert read_error(tmp_path / "a.ring") == ""
    (tmp_path / "b.error").write_bytes(b"\xff\x1b]0;title\x07" + b"x" * 10**6)
    assert len(read_error(tmp_path / "b.ring")) == 200
    assert read_error(tmp_path / "b.ring").isprintable()
