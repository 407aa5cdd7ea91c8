import errno
import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.documents import (
    MAX_BYTES,
    parse_document,
    read_document,
    refuse_unwritable,
    write_whole,
)
from syncwall.problems import InputError


def refused(text: str, **options) -> str:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f.yaml", **options)
    return str(caught.value)


def test_values_follow_yaml_1_2():
    text = "a: 5e10\nb: 1:7\nc: yes\nd: 2026-01-01\ne: 010\nf: true\ng: ~\nh: '5'\ni: .5\n"
    assert parse_document(text, "f.yaml").value == {
        "a": 5e10,
        "b": "1:7",
        "c": "yes",
        "d": "2026-01-01",
        "e": 10,
        "f": True,
        "g": None,
        "h": "5",
        "i": 0.5,
    }


def test_every_key_and_item_knows_its_place():
    document = parse_document("a: 1\nb:\n  - {x: 1, y: 2}\n  - z\n", "f.yaml")
    assert document.place(("b",)) == (2, 1)
    assert document.place(("b", 0, "y")) == (3, 12)
    assert document.place(("b", 1)) == (4, 5)


def test_a_path_that_is_not_there_has_the_place_of_what_is():
    document = parse_document("a: 1\nb:\n  x: 1\n", "f.yaml")
    assert document.place(("b", "missing", "deeper")) == (2, 1)
    assert document.place(("b", "an alternative", "x")) == (3, 3)
    assert document.place(("elsewhere",)) == (1, 1)


def test_json_may_be_indented_with_tabs():
    assert parse_document('{\n\t"a": [1,\t2]\n}', "f.json", is_json=True).value == {"a": [1, 2]}


def test_an_alias_repeats_a_value():
    assert parse_document("a: &x [1]\nb: *x\n", "f.yaml").value == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2\n", "f.yaml:2:1  not YAML"),
        ("a: 1\na: 2\n", 'f.yaml:2:1  key "a" appears twice'),
        ("", "f.yaml:1:1  is empty"),
        ("# nothing\n", "f.yaml:1:1  is empty"),
        ("a: b\x00c", "f.yaml:1:5  character"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1  a second document"),
        ("? [1]\n: 2\n", "f.yaml:1:3  a key must be a word"),
        ("a: *x", 'f.yaml:1:4  alias "*x" is not defined above'),
        ("a: &x [*x]", 'f.yaml:1:8  alias "*x" is not defined above'),
        ("[" * 100_000, "is nested too deeply"),
        ("a: !!python/object:os.system x\nb: [\n", "f.yaml:3:1  not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, message):
    assert message in refused(text)


def test_a_bomb_of_aliases_is_refused_quickly():
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "holds too many values" in refused("\n".join(lines))


def test_a_byte_that_is_not_text_is_named(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError, match=r"f\.yaml:2:4  byte 0xff is not UTF-8 text"):
        read_document(path)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"nothing\.yaml: cannot be read: No such file"):
        read_document(tmp_path / "nothing.yaml")
    with pytest.raises(InputError, match="is a directory"):
        read_document(tmp_path)


def test_a_huge_file_is_refused(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="too large"):
        read_document(path)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_with_a_line(text):
    try:
        parse_document(text, "f.yaml")
    except InputError as error:
        assert all(problem.line >= 1 for problem in error.problems)  # noqa: PT017


def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "result.json"
    for text in ("first", "second"):
        write_whole(path, text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_plain_file_is_never_replaced():
    write_whole(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^missing/out.json: cannot be written: No such file"):
        write_whole(Path("missing/out.json"), "text")


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch):
    def cut_short(path: Path, raw: bytes) -> int:
        with path.open("wb") as file:
            file.write(raw[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", cut_short)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_whole(tmp_path / "out.json", "text")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused_before(tmp_path):
    circle = tmp_path / "circle.json"
    circle.symlink_to(circle)
    unwritable = [circle, tmp_path, Path("/proc/out.json"), tmp_path / ("a" * 300)]
    for path in unwritable:
        with pytest.raises(InputError, match=r"cannot be written|leads to itself"):
            refuse_unwritable(path)
    refuse_unwritable(tmp_path / "out.json")
    refuse_unwritable(Path("/dev/null"))
    assert list(tmp_path.iterdir()) == [circle]


def test_a_compressed_file_is_read_up_to_the_same_limit(tmp_path: Path):
    whole = tmp_path / "run.json.gz"
    whole.write_bytes(gzip.compress(b'{"nodes": 4}'))
    assert read_document(whole).value == {"nodes": 4}
    whole.write_bytes(whole.read_bytes()[:-6])
    with pytest.raises(InputError, match="is not compressed with gzip, or not whole"):
        read_document(whole)
    whole.write_bytes(gzip.compress(b" " * (MAX_BYTES + 1)))
    with pytest.raises(InputError, match="is larger than 16 MiB"):
        read_document(whole)
