"""Memory snapshots of PyTorch: the worst moment, found by going through the events.

Their structure is as PyTorch documents and as 25 public snapshots of 2023 to 2026 have it, on which
the reader was tried.
"""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState
from syncwall.problems import InputError
from syncwall.read.detect import FileKind, kind_of
from syncwall.read.memory_snapshot import read_memory_snapshot

GIB = 1 << 30
TORCH = "/env/lib/python3.12/site-packages/torch"


def frames(*said: str) -> list[dict[str, Any]]:
    """A stack, the innermost first: file:line name."""
    parts = [one.partition(":") for one in said]
    return [
        {"filename": file, "line": int(line.split(" ")[0]), "name": line.split(" ", 1)[1]}
        for file, _, line in parts
    ]


FORWARD = frames(f"{TORCH}/nn/modules/linear.py:125 forward", "model.py:7 forward", "train.py:20 <module>")
BACKWARD = frames("??:0 torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&)")
STEP = frames(
    f"{TORCH}/optim/adamw.py:130 _init_group", f"{TORCH}/optim/adamw.py:210 step", "train.py:22 <module>"
)
STACKS: tuple[list[dict[str, Any]], ...] = (FORWARD, BACKWARD, STEP, [])


def event(action: str, address: int = 0, size: int = 0, stack: Any = (), **more: Any) -> dict[str, Any]:
    """One event of a trace."""
    where = {"device_free": more.pop("free")} if action == "oom" else {"addr": address}
    return {"action": action, **where, "size": size, "stream": 0, "time_us": 1, "frames": list(stack), **more}


def segment(blocks: list[tuple[int, Any]], unused: int = 0, address: int = 1 << 40) -> dict[str, Any]:
    """A segment with blocks in use, sizes and stacks, and one that is not."""
    listed, place = [], address
    for size, stack in blocks:
        block = {"address": place, "size": size, "requested_size": size, "state": "active_allocated"}
        listed.append({**block, "frames": stack})
        place += size
    listed += [{"address": place, "size": unused, "requested_size": 0, "state": "inactive", "frames": []}]
    total = sum(size for size, _ in blocks) + unused
    return {"device": 0, "address": address, "total_size": total, "stream": 0, "blocks": listed}


def written(tmp_path, segments: list[Any], *traces: list[Any]):
    """The path of a snapshot of these."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": list(traces)}))
    return path


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 50), st.integers(0, 3)), min_size=1, max_size=60),
    lost=st.integers(0, 59),
)
def test_the_peak_is_that_of_the_moments_that_are_recorded(steps, lost, tmp_path_factory):
    """A ring buffer of events lost the first ones; what was held then is known from the end."""
    held: dict[int, tuple[int, int]] = {}
    moments, events = [0], []
    for number, (is_alloc, size, stack) in enumerate(steps):
        if is_alloc or not held:
            held[number] = size, stack
            events.append(event("alloc", number, size, STACKS[stack]))
        else:
            address = next(iter(held))
            events.append(event("free_completed", address, held.pop(address)[0]))
        moments.append(sum(one for one, _ in held.values()))
    lost = min(lost, len(events) - 1)
    blocks = [
        {"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": STACKS[stack]}
        for a, (s, stack) in held.items()
    ]
    end = {"device": 0, "address": 0, "total_size": 5_000, "blocks": blocks}
    path = written(tmp_path_factory.mktemp("snapshot"), [end], events[lost:])
    (found,) = read_memory_snapshot(path).devices
    assert found.held_bytes == max(moments[lost:])
    assert found.end_held_bytes == moments[-1]
    assert sum(found.phases.values()) == sum(one.held_bytes for one in found.holders) == found.held_bytes


def test_the_line_is_the_programs_own_and_the_phase_that_of_the_innermost_frame(tmp_path):
    before = [segment([(3 * GIB, [])])]
    trace = [
        event("alloc", 1, 4 * GIB, FORWARD),
        event("segment_alloc", 0, 8 * GIB),
        event("alloc", 2, 2 * GIB, BACKWARD),
        event("free_requested", 1, 4 * GIB),
        event("free_completed", 1, 4 * GIB),
        event("alloc", 3, GIB, STEP),
        event("free_completed", 3, GIB),
        event("free_completed", 2, 2 * GIB),
        event("segment_free", 0, 8 * GIB),
    ]
    (found,) = read_memory_snapshot(written(tmp_path, before, trace)).devices
    assert (found.held_bytes, found.reserved_bytes) == (9 * GIB, 11 * GIB)
    assert [(one.line, one.phase, one.held_bytes // GIB) for one in found.holders] == [
        ("model.py:7 forward", "forward pass (activations)", 4),
        ("", "before the recording", 3),
        ("", "backward pass (gradients)", 2),
    ]


def test_memory_that_ran_out_is_wrong_and_says_what_would_fit(tmp_path):
    trace = [
        event("alloc", 1 << 40, 6 * GIB, FORWARD),
        event("oom", 0, 2 * GIB, frames("model.py:9 attention"), free=GIB),
        event("segment_alloc", 1 << 40, 7 * GIB),
        event("alloc", (1 << 40) + 6 * GIB, 7 * GIB, STEP),
    ]
    whole = [segment([(6 * GIB, FORWARD), (7 * GIB, STEP)])]
    found = explain([written(tmp_path, whole, trace)])
    assert (found.state, found.conclusion.cause) == (VerdictState.WRONG, "GPU out of memory")
    assert "2.00 GiB more did not fit in model.py:9 attention (6.00 GiB in tensors" in str(found.verdict)
    (then,) = found.next
    assert "half the micro batch would free about 3.00 GiB" in then


def test_unused_memory_that_would_have_been_enough_is_fragmented(tmp_path):
    trace = [event("oom", 0, 2 * GIB, FORWARD, free=GIB)]
    whole = [segment([(6 * GIB, STEP)], unused=3 * GIB)]
    found = explain([written(tmp_path, whole, trace)])
    assert found.conclusion.cause == "GPU memory fragmented"
    assert "expandable_segments" in next(iter(found.next))
    (device,) = found.memory
    assert device.unused_bytes == 3 * GIB


def test_a_snapshot_without_a_failure_is_not_judged(tmp_path):
    found = explain([written(tmp_path, [segment([(6 * GIB, STEP)])], [])])
    assert found.state is VerdictState.NOT_JUDGED
    assert not found.judged
    assert "a smaller micro batch frees 0.00 GiB at most" in " ".join(str(found).split())


def test_blocks_of_torch_2_0_have_no_address_and_a_history(tmp_path):
    block = {"size": 8, "requested_size": 6, "state": "active_allocated"}
    history = [{"addr": 0, "real_size": 6, "frames": FORWARD}]
    blocks = [{**block, "history": history}, {**block, "state": "inactive"}, {**block, "history": history}]
    listed = [{"device": 1, "address": 100, "total_size": 24, "blocks": blocks}]
    path = written(tmp_path, listed, [], [event("alloc", 116, 6, FORWARD)])
    (found,) = read_memory_snapshot(path).devices
    assert (found.device, found.held_bytes, found.unused_bytes) == (1, 12, 12)
    assert found.phases == {"forward pass (activations)": 12}


def test_a_snapshot_is_told_from_a_flight_recorder_dump(tmp_path):
    assert kind_of(written(tmp_path, [], [])) is FileKind.MEMORY
    (tmp_path / "dump").write_bytes(pickle.dumps({"version": "2.10", "entries": []}))
    assert kind_of(tmp_path / "dump") is FileKind.FLIGHT


class Runs:
    """What runs code in a pickle that is loaded."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    "root",
    [
        {"segments": [], "device_traces": Runs()},
        {"segments": [], "device_traces": {}},
        {"segments": [], "device_traces": []},
        {"segments": []},
        ["segments"],
    ],
)
def test_what_is_no_snapshot_is_an_input_problem(root, tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(root))
    with pytest.raises(InputError):
        read_memory_snapshot(path)


def test_lists_that_are_shared_cost_no_more_than_the_limit(tmp_path):
    shared: list[Any] = [{"size": 1, "state": "active_allocated", "frames": FORWARD}] * 3_000
    many = [{"device": 0, "address": 0, "total_size": 1, "blocks": shared}] * 3_000
    found = read_memory_snapshot(written(tmp_path, many, []))
    assert "could not be read" in found.problems[0].message


@given(
    value=st.sampled_from([None, -1, True, "x", 1.5, [], {}]), key=st.sampled_from(["addr", "size", "frames"])
)
def test_damaged_events_are_counted_or_left_out(value, key, tmp_path_factory):
    bad = {**event("alloc", 7, 5, FORWARD), key: value}
    path = written(
        tmp_path_factory.mktemp("snapshot"), [segment([(3, [])])], [bad, event("alloc", 9, 4, STEP)]
    )
    (found,) = read_memory_snapshot(path).devices
    assert 3 + 4 <= found.held_bytes <= 3 + 4 + 5
