"""Snapshots of PyTorch's CUDA allocator: what is held at the worst moment, by which line of a program.

A pickle of `torch.cuda.memory._dump_snapshot` holds the state at its end (segments, their blocks) and,
with `_record_memory_history`, the last events: the state at any of their moments is that of the end
without what came later. Keys as written since torch 2.0, which says what they mean in "Understanding
CUDA Memory Usage".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.public import published
from syncwall.read.limited import plain_text
from syncwall.read.plain_pickle import plain_pickle, whole_file

_PARTS: Final = 2_000_000
"""Blocks and events that are read."""
_FRAMES: Final = 400
_LINES: Final = 200
"""Lines of a program that are kept, the largest first."""
_KEYS: Final = (b"segments", b"device_traces")

_UNRECORDED: Final = (("", "", "no stack recorded"), ("", "", "before the recording"))
_PHASES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (phase, re.compile(pattern))
    for phase, pattern in (
        ("collectives and sharding", r"/torch/distributed/|/torch/nn/parallel/|/deepspeed/runtime/zero/"),
        ("optimizer step (states)", r"/torch/optim/|optim[^/]*\.py:\d+ step$|/apex/optimizers/"),
        ("backward pass (gradients)", r":\d+ torch::autograd::Engine|\.py:\d+ backward$"),
        ("model set-up (weights)", r"/torch/nn/(modules/module\.py:\d+ (_apply|to|cuda)$|parameter|init)"),
        ("model set-up (weights)", r"/torch/serialization\.py|\.py:\d+ (__init__|from_pretrained)$"),
        ("forward pass (activations)", r"\.py:\d+ forward$|/torch/nn/(functional|modules/module)\.py"),
    )
)
"""What a program was doing, by the innermost of its frames that tells: file:line function."""


@published()
@dataclass(frozen=True, slots=True)
class Holder:
    """Memory that was allocated by one line of a program, and is held."""

    line: str
    """file:line function, the innermost outside of PyTorch; empty if none was recorded."""
    called_in: str
    """The innermost line of the program's own, if the line is of a package."""
    phase: str
    """What the program was doing there."""
    held_bytes: int
    blocks: int


@published()
@dataclass(frozen=True, slots=True)
class Refusal:
    """An allocation for which there was no memory."""

    asked_bytes: int
    free_bytes: int
    """What the GPU still had, outside of PyTorch."""
    line: str


@published()
@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of one GPU at its worst moment: the last refusal, or else the peak of what is recorded."""

    source: str
    device: int
    events: int
    """Recorded allocations and frees; 0 if only the state at the end is known."""
    held_bytes: int
    reserved_bytes: int
    """What PyTorch had from CUDA, in use or not."""
    end_held_bytes: int
    holders: tuple[Holder, ...]
    """The largest first."""
    phases: dict[str, int]
    """Bytes by what the program was doing when it allocated them, the largest first."""
    refusal: Refusal | None = None

    @property
    def unused_bytes(self) -> int:
        """Reserved and not in use: fragments, and rounding."""
        return max(self.reserved_bytes - self.held_bytes, 0)


@dataclass(frozen=True)
class MemorySnapshot:
    """One file, which may be of several GPUs."""

    source: str
    devices: tuple[DeviceMemory, ...]
    problems: tuple[Problem, ...] = ()


def is_memory_snapshot(head: bytes) -> bool:
    """Whether a pickle that begins with `head` is of the allocator; its keys have one order."""
    return any(key in head[:256] for key in _KEYS)


def read_memory_snapshot(path: Path | str) -> MemorySnapshot:
    """The snapshot at `path`, of which nothing is executed; `InputError` if it is none."""
    source = str(path)
    raw, cut = whole_file(path, "memory snapshot")
    root = plain_pickle(raw, source)
    del raw
    if not isinstance(root, dict) or not all(isinstance(root.get(k.decode()), list) for k in _KEYS):
        raise InputError.of("is not a memory snapshot: it has no segments and device_traces", file=source)
    reader = _Reader(source)
    devices = tuple(reader.devices(root["segments"], root["device_traces"]))
    if not devices:
        raise EmptyInput.of("holds no memory of any GPU: nothing was allocated, or recorded", file=source)
    problems = [] if cut is None else [cut]
    if reader.bad:
        problems.append(Problem(source, 0, 0, f"{reader.bad:,} blocks or events could not be read"))
    return MemorySnapshot(source, devices, tuple(problems))


_Frames = int
"""Number of a stack in `_Reader.stacks`."""
_Block = tuple[int, _Frames]
"""Bytes, and the stack that allocated them."""


@dataclass(slots=True)
class _Event:
    moment: int
    """Its place among all events, those of segments included."""
    is_alloc: bool
    address: int
    block: _Block


class _Reader:
    """Reads blocks and events; a list of frames that many of them share is read once."""

    def __init__(self, source: str) -> None:
        self.bad = 0
        self._source = source
        self._left = _PARTS
        self._seen: dict[int, _Frames] = {}
        self._stacks: list[tuple[str, str, str]] = list(_UNRECORDED)

    def devices(self, segments: list[Any], traces: list[Any]) -> Iterator[DeviceMemory]:
        """Of every GPU of which something is known."""
        blocks: dict[int, dict[int, _Block]] = {}
        reserved: dict[int, int] = {}
        for segment in self._dicts(segments):
            device = _whole(segment.get("device")) or 0
            reserved[device] = reserved.get(device, 0) + (_whole(segment.get("total_size")) or 0)
            blocks.setdefault(device, {}).update(self._active(segment))
        recorded = {
            number for number, events in enumerate(traces[:1024]) if isinstance(events, list) and events
        }
        for device in sorted({*blocks, *recorded}):
            events = traces[device] if device in recorded else []
            yield self._device(device, blocks.get(device, {}), reserved.get(device, 0), events)

    def _active(self, segment: dict[str, Any]) -> Iterator[tuple[int, _Block]]:
        """Blocks of a segment in use; until torch 2.0 they said no address, and kept a history."""
        address = _whole(segment.get("address")) or 0
        for block in self._dicts(segment.get("blocks")):
            size = _whole(block.get("size"))
            if size is None:
                self.bad += 1
                continue
            history = block.get("history")
            last = (
                history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}
            )
            if str(block.get("state")).startswith("active"):
                asked = _whole(block.get("requested_size", last.get("real_size"))) or size
                where = _whole(block.get("address"))
                yield (
                    address if where is None else where,
                    (asked, self._stack(block.get("frames", last.get("frames")))),
                )
            address += size

    def _device(self, device: int, end: dict[int, _Block], reserved: int, listed: list[Any]) -> DeviceMemory:
        events: list[_Event] = []
        mapped: list[tuple[int, int]] = []
        refused: tuple[int, int, Refusal] | None = None
        for moment, item in enumerate(self._dicts(listed)):
            action, size = item.get("action"), _whole(item.get("size"))
            address = _whole(item.get("addr"))
            if action == "oom" and size is not None:
                line, *_ = self._stacks[self._stack(item.get("frames"))]
                free = _whole(item.get("device_free")) or 0
                refused = len(events), moment, Refusal(size, free, line)
            elif action in _RESERVES and size is not None:
                mapped.append((moment, size * _RESERVES[action]))
            elif action in _BLOCKS:
                if address is None or size is None:
                    self.bad += 1
                    continue
                stack = self._stack(item.get("frames")) if action == "alloc" else 0
                events.append(_Event(moment, action == "alloc", address, (size, stack)))
        before = _before(events, end)
        at, moment, refusal = refused or (*_peak(events, before), None)
        held = _after(events[:at], before)
        holders, phases = self._holders(held)
        return DeviceMemory(
            source=self._source,
            device=device,
            events=len(events),
            held_bytes=sum(size for size, _ in held.values()),
            reserved_bytes=reserved - sum(size for place, size in mapped if place > moment),
            end_held_bytes=sum(size for size, _ in end.values()),
            holders=holders,
            phases=phases,
            refusal=refusal,
        )

    def _holders(self, held: dict[int, _Block]) -> tuple[tuple[Holder, ...], dict[str, int]]:
        lines: dict[tuple[str, str, str], list[int]] = {}
        phases: dict[str, int] = {}
        for size, stack in held.values():
            line = lines.setdefault(self._stacks[stack], [0, 0])
            line[0] += size
            line[1] += 1
            phase = self._stacks[stack][-1]
            phases[phase] = phases.get(phase, 0) + size
        made = (Holder(*where, *count) for where, count in lines.items())
        largest = sorted(made, key=lambda one: (-one.held_bytes, one.line))
        return tuple(largest[:_LINES]), dict(sorted(phases.items(), key=lambda one: -one[1]))

    def _stack(self, frames: Any) -> _Frames:
        """The number of a stack; those that say the same have one."""
        if not isinstance(frames, list) or not frames:
            return 0
        if id(frames) not in self._seen:
            self._seen[id(frames)] = len(self._stacks)
            self._stacks.append(_told(frames))
        return self._seen[id(frames)]

    def _dicts(self, value: Any) -> Iterator[dict[str, Any]]:
        for one in value if isinstance(value, list) else ():
            if self._left <= 0:
                self.bad += 1
                return
            self._left -= 1
            if isinstance(one, dict):
                yield one
            else:
                self.bad += 1


_BLOCKS: Final = ("alloc", "free", "free_completed")
_RESERVES: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def _before(events: list[_Event], end: dict[int, _Block]) -> dict[int, _Block]:
    """What was held before the first event: what is freed or left without having been allocated."""
    since: set[int] = set()
    before: dict[int, _Block] = {}
    unknown = 1 if events else 0
    for event in events:
        if event.is_alloc:
            since.add(event.address)
        elif event.address in since:
            since.remove(event.address)
        else:
            before[event.address] = event.block
    before |= {address: block for address, block in end.items() if address not in since}
    return {address: (size, stack or unknown) for address, (size, stack) in before.items()}


def _peak(events: list[_Event], before: dict[int, _Block]) -> tuple[int, int]:
    """How many events led to the most that was held, and the moment of the last of them."""
    held = most = sum(size for size, _ in before.values())
    at, moment = 0, -1
    for number, event in enumerate(events, 1):
        held += event.block[0] if event.is_alloc else -event.block[0]
        if held > most:
            most, at, moment = held, number, event.moment
    return at, moment


def _after(events: list[_Event], before: dict[int, _Block]) -> dict[int, _Block]:
    held = dict(before)
    for event in events:
        if event.is_alloc:
            held[event.address] = event.block
        else:
            held.pop(event.address, None)
    return held


def _told(frames: list[Any]) -> tuple[str, str, str]:
    """The innermost line outside of PyTorch, the program's own above it, and what was being done."""
    known = [frame for frame in frames[:_FRAMES] if isinstance(frame, dict)]
    lines = [
        f"{plain_text(one.get('filename'), 400)}:{_whole(one.get('line')) or 0} {plain_text(one.get('name'))}"
        for one in known
    ]
    python = [line for line in lines if _PYTHON.search(line)]
    outside = [line for line in python if not _PYTORCH.search(line)]
    own = next((line for line in outside if not _PACKAGE.search(line)), "")
    line = (outside or python or [""])[0]
    phases = (phase for line in lines for phase, pattern in _PHASES if pattern.search(line))
    return line, own if own != line else "", next(phases, "other")


_PYTHON: Final = re.compile(r"\.py:\d|^<ipython|/ipykernel_|^<string>|^Cell ")
_PACKAGE: Final = re.compile(r"/(?:site|dist)-packages/")
_PYTORCH: Final = re.compile(
    r"/torch/|torchinductor_|^<string>|/lib/python3[.\d]*/(?!(?:site|dist)-packages/)"
)


def _whole(value: Any) -> int | None:
    is_size = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_size else None
