"""Files are opened whatever they are packed in, and bombs are refused."""

import gzip
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.problems import InputError
from syncwall.read.limited import UnpackLimits, open_limited, text_lines


def zipped(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return path


@given(parts=st.lists(st.binary(max_size=2000), min_size=1, max_size=4))
def test_plain_gzip_and_zip_give_the_same_bytes(tmp_path_factory, parts):
    folder, data = tmp_path_factory.mktemp("packed"), b"".join(parts)
    plain, packed = folder / "a", folder / "a.gz"
    plain.write_bytes(b"x" + data)
    packed.write_bytes(gzip.compress(b"x") + b"".join(gzip.compress(part) for part in parts))
    for path in (plain, packed, zipped(folder / "a.zip", b"x" + data)):
        with open_limited(path) as stream:
            assert stream.read() == b"x" + data
            assert stream.problem is None


def test_a_truncated_gzip_gives_what_is_there_and_says_so(tmp_path):
    data = bytes(range(256)) * 4000
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(data)[:-20])
    with open_limited(path) as stream:
        got = stream.read()
    assert data.startswith(got)
    assert len(got) > 0
    assert stream.problem is not None
    assert "end is missing" in stream.problem.message


def test_a_gzip_with_a_wrong_checksum_is_damaged(tmp_path):
    packed = bytearray(gzip.compress(b"hello" * 100))
    packed[-6] ^= 255
    path = tmp_path / "wrong.gz"
    path.write_bytes(packed)
    with open_limited(path) as stream:
        stream.read()
    assert stream.problem is not None
    assert "damaged" in stream.problem.message


@pytest.mark.parametrize(
    "pack", [lambda p, d: p.write_bytes(gzip.compress(d)) and p, zipped], ids=["gzip", "zip"]
)
def test_a_bomb_is_refused_by_its_ratio(tmp_path, pack):
    path = tmp_path / "bomb"
    pack(path, bytes(8 << 20))
    with (
        open_limited(path, UnpackLimits(free_bytes=1 << 20)) as stream,
        pytest.raises(InputError, match="expands more than 100 times"),
    ):
        stream.read()
    assert stream.raw_bytes < 4 << 20


def test_a_file_beyond_the_size_limit_is_refused(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"abc\n" * 1_000_000)
    with (
        open_limited(path, UnpackLimits(raw_bytes=1 << 20)) as stream,
        pytest.raises(InputError, match="larger than"),
    ):
        stream.read()


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"\xfd7zXZ\x00 rest", "xz"), (b"\x28\xb5\x2f\xfd rest", "zstd"), (b"PK\x03\x04 rest", "zip")],
)
def test_what_cannot_be_unpacked_says_what_to_do(tmp_path, data, word):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InputError, match=word):
        open_limited(path)


def test_no_file_and_a_directory(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        open_limited(tmp_path / "none")
    with pytest.raises(InputError, match="directory"):
        open_limited(tmp_path)


def test_lines_of_any_encoding_and_length(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbffirst\r\n\xffsecond\n" + b"x" * (3 << 20) + b"\nlast")
    lines = list(text_lines(path))
    assert lines[:2] == ["first", "\ufffdsecond"]
    assert lines[-1] == "last"
    assert max(map(len, lines)) <= 1 << 20
    assert sum(map(len, lines)) == 5 + 7 + (3 << 20) + 4
