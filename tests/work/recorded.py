"""Programs as a recorder makes them, made up: a decoder under FSDP2, and any at all."""

import random
from dataclasses import asdict
from typing import Any

from hypothesis import strategies as st

from syncwall.describe.choice import Dtype
from syncwall.work.block import StepPhase
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    Kernel,
    Message,
    Offload,
)
from syncwall.work.program import (
    Call,
    Held,
    HeldKind,
    Note,
    NoteKind,
    Program,
    RankProgram,
    SourceLocation,
)


def plain(program: Program) -> dict[str, Any]:
    """All values of a program; a `Group` is equal to itself alone."""
    return asdict(program)


def decoder(layers: int = 32, kernels: int = 28, world_size: int = 1024) -> Program:
    """A forward and a backward pass of layers: gathers ahead, reads of what was kept."""
    group = Group("shard", world_size)
    calls: list[Call] = []
    sizes: list[float] = []

    def tensor(size: float) -> int:
        sizes.append(size)
        return len(sizes) - 1

    def add(name: str, what: Any, phase: StepPhase, place: SourceLocation, **more: Any) -> int:
        calls.append(Call(name, what, phase=phase, place=place, **more))
        return len(calls) - 1

    kept: list[list[int]] = []
    last = tensor(1e6)
    add(
        "aten.embedding",
        Elementwise(2e6),
        StepPhase.FORWARD,
        SourceLocation("embed", "model.py:9"),
        writes=(last,),
    )
    for phase, order in (
        (StepPhase.FORWARD, range(layers)),
        (StepPhase.BACKWARD, reversed(range(layers))),
    ):
        for layer in order:
            gather = add(
                "c10d.allgather_base",
                Collective("all-gather", 4.36e8, group),
                phase,
                SourceLocation(f"layers.{layer}", "train.py:31"),
                stream="shard",
                writes=(tensor(4.36e8),),
            )
            weight, saved = len(sizes) - 1, []
            for number in range(kernels if phase is StepPhase.FORWARD else 2 * kernels):
                place = SourceLocation(f"layers.{layer}.part{number // 4}", f"model.py:{20 + number // 4}")
                what = Gemm(8192, 4096, 4096 + number) if number % 3 else Elementwise(1e8 + number)
                was = () if phase is StepPhase.FORWARD else (kept[layer][number // 2],)
                new = tensor(1e6 + number)
                add(
                    "aten.mm" if number % 3 else "aten.mul",
                    what,
                    phase,
                    place,
                    reads=(last, weight, *was),
                    writes=(new,),
                    after=() if number else (gather,),
                )
                last = new
                saved.append(new)
            if phase is StepPhase.FORWARD:
                kept.append(saved)
    for layer in range(layers):
        add(
            "aten._fused_adamw_",
            Elementwise(3e8, is_fused=True),
            StepPhase.FINISH,
            SourceLocation(f"layers.{layer}", "train.py:40"),
        )
    held = tuple(Held(HeldKind.WEIGHTS, f"layers.{layer}", 1.7e6) for layer in range(layers))
    notes = (Note(NoteKind.PADDED, "pos", SourceLocation("embed"), 2, 0.0, 4e8, 1e6),)
    all_kept = frozenset(one for saved in kept for one in saved)
    rank = RankProgram(0, world_size, tuple(calls), tuple(sizes), held, all_kept)
    return Program(world_size, (rank,), "train.py --layers 32", "2.13.0", 1024, 8e6, 8.03e9, notes)


_sizes = st.one_of(st.integers(0, 2**40), st.floats(0, 1e15, allow_nan=False))
_words = st.text(max_size=6)
_dimensions = st.integers(1, 2**40)
_groups = st.builds(Group, st.sampled_from(["tp", "dp", "other"]), st.integers(1, 64), _sizes)
_tasks = st.one_of(
    st.none(),
    st.builds(Gemm, _sizes, _sizes, _sizes, st.sampled_from(Dtype), _sizes, st.booleans()),
    st.builds(
        CoreAttention,
        *(_dimensions for _ in range(6)),
        window=_dimensions,
        is_causal=st.booleans(),
    ),
    st.builds(Convolution, *(_dimensions for _ in range(5)), st.sampled_from(Dtype)),
    st.builds(Elementwise, _sizes, kind=_words, is_fused=st.booleans()),
    st.builds(Kernel, _sizes, _sizes),
    st.builds(Collective, st.sampled_from(["all-reduce", "gather"]), _sizes, _groups, _dimensions),
    st.builds(Message, _sizes, st.integers(0, 99), st.integers(0, 99)),
    st.builds(Offload, _sizes, _sizes),
)
_places = st.builds(SourceLocation, _words, _words)


_held = st.lists(st.builds(Held, st.sampled_from(HeldKind), _words, _sizes), max_size=3)
_kinds = st.tuples(_words, _tasks, st.sampled_from(["compute", "tp"]), st.sampled_from(StepPhase))


@st.composite
def _ranks(draw: Any) -> RankProgram:
    sizes = draw(st.lists(_sizes, max_size=9))
    dice = random.Random(draw(st.integers(0, 99)))

    def tensors() -> tuple[int, ...]:
        return tuple(dice.choices(range(len(sizes)), k=dice.randrange(3))) if sizes else ()

    calls: list[Call] = []
    for _ in range(draw(st.integers(0, 4))):  # stretches that repeat
        stretch = draw(st.lists(_kinds, max_size=5))
        for _ in range(draw(st.sampled_from([1, 2, 30]))):
            for name, task, stream, phase in stretch:
                after = (len(calls) - 1,) if calls and stream == "tp" else ()
                place = SourceLocation("layer", f"a.py:{dice.randrange(9)}")
                calls.append(
                    Call(
                        name,
                        task,
                        stream,
                        after,
                        phase,
                        place,
                        tensors(),
                        tensors(),
                        task is None,
                        dice.randrange(3),
                    )
                )
    rank, alike, held = draw(st.integers(0, 9)), draw(st.integers(1, 9)), tuple(draw(_held))
    return RankProgram(rank, alike, tuple(calls), tuple(sizes), held, frozenset(tensors()))


_notes = st.builds(
    Note, st.sampled_from(NoteKind), _words, _places, st.integers(0, 9), _sizes, _sizes, _sizes
)
programs = st.builds(
    Program,
    st.integers(1, 10**6),
    st.lists(_ranks(), min_size=1, max_size=2).map(tuple),
    _words,
    _words,
    _sizes,
    _sizes,
    _sizes,
    st.lists(_notes, max_size=3).map(tuple),
    st.booleans(),
)
