"""A recorded program as a file: written, read again, damaged."""

import contextlib
import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from syncwall.capture.program_file import write_program
from syncwall.problems import InputError
from syncwall.read.recorded_program import read_program
from tests.read.test_text_fuzz import mutated
from tests.work.recorded import decoder, plain, programs

QUICK_S = 2.0


def content(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return value


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "run.work.json.gz"
    write_program(decoder(layers=6, kernels=6), path)
    return path


@given(programs)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
    deadline=None,
)
def test_a_program_comes_back_as_it_was(tmp_path, program):
    path = tmp_path / "any.work.json.gz"
    write_program(program, path)
    assert plain(read_program(path)) == plain(program)


def test_a_step_of_3727_calls_takes_20_kilobytes(tmp_path):
    program, path = decoder(layers=43), tmp_path / "run.work.json.gz"
    write_program(program, path)
    assert path.stat().st_size < 20_000
    before = time.process_time()
    again = read_program(path)
    assert time.process_time() - before < QUICK_S
    assert plain(again) == plain(program)


def test_the_same_program_is_the_same_file(tmp_path, small):
    write_program(decoder(layers=6, kernels=6), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == small.read_bytes()


def test_a_file_of_something_else_is_refused_by_name(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(InputError, match=r"other.json: is not a recorded program; .*capture"):
        read_program(path)


def test_a_file_of_a_later_syncwall_says_so(small):
    small.write_text(json.dumps(content(small) | {"version": 2}))
    with pytest.raises(InputError, match="version 2 of the format, this syncwall reads 1"):
        read_program(small)


def test_half_a_file_is_damaged(small):
    small.write_bytes(small.read_bytes()[:500])
    with pytest.raises(InputError, match=r"run.work.json.gz: is damaged"):
        read_program(small)


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """`value` with something else at `path`, which is left out if that is `...`."""
    if not path:
        return new
    copy = value.copy()
    if new is ... and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], new) if path[1:] else new
    return copy


RANK = ("ranks", 0)


@pytest.mark.parametrize(
    ("path", "new"),
    [
        *(((key,), ...) for key in ("world_size", "names", "ranks", "tasks", "notes")),
        *(((*RANK, key), ...) for key in ("rank", "blocks", "name", "where", "held")),
        (("world_size",), 0),
        (("world_size",), "8"),
        (("world_size",), True),
        (("tokens",), -1),
        (("names",), "aten.mm"),
        (("names", 0), 3),
        (("places", 0), ["one"]),
        (("more",), 1),
        (("phases", 0), "sideways"),
        (("ranks",), []),
        (("groups", 0), ["dp", -1, 1]),
        (("groups", 0), ["dp", 0, 1]),
        (
            ("tasks", 0),
            ["attention", dict.fromkeys(("batch", "heads", "q_len", "kv_len", "head_dim", "v_dim"), 0)],
        ),
        (("tasks", 0), ["convolution", {"m": 0, "n": 0, "k": 0, "bytes": 0}]),
        *(
            (("tasks", 0), ["collective", {"kind": "broadcast", "bytes": 8, "group": 0, field: 0}])
            for field in ("calls", "copies", "domains")
        ),
        (("tasks", 0), ["elementwise", {"bytes": 8, "eager": 0.5}]),
        (("groups", 0), ["xy", 1, 1]),
        (("tasks", 0), ["gem", {}]),
        (("tasks", 0), ["gemm", {"m": 1}]),
        (("tasks", 0), ["gemm"]),
        (("tasks", 0), ["kernel", {"flops": -1, "bytes": 1}]),
        (("tasks", 0), []),
        (("tasks", 0), ["kernel", {"flops": "1", "bytes": 1}]),
        (("tasks", 0), ["kernel", {"flops": 1, "bytes": 1, "dtype": "int3"}]),
        (("tasks", 0), ["kernel", {"flops": 1, "bytes": 1, "speed": 1}]),
        (("tasks", 0), ["message", {"bytes": 1, "sender": 0.5, "receiver": 1}]),
        (("tasks", 0), ["transfer", {"bytes": 1, "group": 99}]),
        (("tasks", 0), ["transfer", {"bytes": 1, "group": -1}]),
        (("tasks", 0), ["gemm", {"m": 1, "n": 1, "k": 10**400}]),
        (("notes", 0, 0), "rumour"),
        (("notes", 0, 2), -1),
        (("notes", 0, 2), 10**6),
        ((*RANK, "blocks", 0), [1, 10**15]),
        ((*RANK, "blocks", 0), [0, 1]),
        ((*RANK, "blocks", 0), [1]),
        ((*RANK, "blocks", 0), [-1, -1]),
        ((*RANK, "blocks"), []),
        ((*RANK, "name", 0), 10**6),
        ((*RANK, "name", 0), -1),
        ((*RANK, "task", 0), -2),
        ((*RANK, "task", 0), 10**6),
        ((*RANK, "stream", 0), 7),
        ((*RANK, "phase", 0), 9),
        ((*RANK, "after", 0), [1]),
        ((*RANK, "after", 0), [0]),
        ((*RANK, "after", 0), [-1]),
        ((*RANK, "where", 0), [-1, 0]),
        ((*RANK, "where", 0), [10**9, 0]),
        ((*RANK, "where", 0), [1]),
        ((*RANK, "reads", 0), [-1]),
        ((*RANK, "writes", 0), [10**15]),
        ((*RANK, "reads"), []),
        ((*RANK, "kept", 0), 10**12),
        ((*RANK, "tensor_bytes", 0), -5),
        ((*RANK, "held", 0), ["weights", 4, 1]),
        ((*RANK, "held", 0), ["gold", "a", 1]),
    ],
)
def test_every_damage_is_refused_with_a_sentence(small, path, new):
    small.write_text(json.dumps(changed(content(small), path, new)))
    with pytest.raises(InputError, match=r"run.work.json.gz: is damaged: .+"):
        read_program(small)


@pytest.mark.parametrize("packed", [True, False])
def test_no_mutation_breaks_the_reader(small, packed):
    raw, dice = small.read_bytes(), random.Random(5)
    raw = raw if packed else gzip.decompress(raw)
    for _ in range(300):
        small.write_bytes(mutated(raw, dice))
        before = time.process_time()
        with contextlib.suppress(InputError):
            read_program(small)
        assert time.process_time() - before < QUICK_S


def test_a_small_file_of_endless_calls_is_refused_quickly(small):
    """A block of many rounds, with columns that are too short for it."""
    small.write_text(json.dumps(changed(content(small), (*RANK, "blocks", 0), [1, 999_999])))
    before = time.process_time()
    with pytest.raises(InputError):
        read_program(small)
    assert time.process_time() - before < QUICK_S
