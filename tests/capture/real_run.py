"""One step of a training script: really taken over Gloo, and recorded; `real` beside `recorded`.

A rank of the real run is `python -m tests.capture.real_run FILE SCRIPT ARGUMENTS`, a process that has
no GPU: what names CUDA gets the CPU, with the optimizer loops that a GPU would choose. FLOPs are those
of PyTorch's `FlopCounterMode`; memory is all storages that are alive; bytes are those of the `c10d`
operations themselves. None of the three uses what records.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch._subclasses import FakeTensor
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import (
    FlopCounterMode,
    _FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from syncwall.capture.recorder import StepMark, window
from syncwall.capture.script import Script, record_script
from syncwall.work.operations import Collective, CoreAttention, Message
from syncwall.work.program import Program, RankProgram
from tests.measure.ranks import free_port

LIMITS: Final = {"FLOPs": 0.02, "bytes": 0.001, "memory": 0.05}
_PLAIN: Final = frozenset((torch.Tensor, torch.nn.Parameter))
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class RankStep:
    """What one rank does in a step."""

    flops: float
    peak_bytes: float
    sent: list[tuple[str, float]] = field(default_factory=list)
    """Kind and bytes of each collective and message, in order."""

    @property
    def bytes_of(self) -> dict[str, float]:
        sums: Counter[str] = Counter()
        for kind, size in self.sent:
            sums[kind] += size  # type: ignore[assignment]
        return dict(sums)

    def differences(self, true: "RankStep") -> dict[str, float]:
        """Relative errors of this one; of the kinds of collectives the largest."""
        kinds = {*self.bytes_of, *true.bytes_of}
        each = [_error(self.bytes_of.get(kind, 0.0), true.bytes_of.get(kind, 0.0)) for kind in kinds]
        return {
            "FLOPs": _error(self.flops, true.flops),
            "bytes": max(each, key=abs, default=0.0),
            "memory": _error(self.peak_bytes, true.peak_bytes),
        }


def _error(value: float, true: float) -> float:
    return value / true - 1.0 if true else float(value > 0)


def recorded(script: Script, world: int) -> dict[int, RankStep]:
    """Ranks of the recording: one for each stage of a pipeline, else the first."""
    return steps_of(record_script(script, world_size=world, ranks_per_node=world))


def steps_of(program: Program) -> dict[int, RankStep]:
    return {one.rank: _step_of(one) for one in program.ranks}


def _step_of(rank: RankProgram) -> RankStep:
    flops, sent = 0.0, []
    for call in rank:
        what = call.what
        flops += float(getattr(what, "flops", 0.0)) * _square(what)
        if isinstance(what, Collective):
            sent.append((str(what.kind), float(what.bytes)))
        elif isinstance(what, Message):
            sent.append(("send" if what.sender == rank.rank else "recv", float(what.bytes)))
    return RankStep(flops, rank.held_bytes, sent)


def _square(what: Any) -> float:
    """`FlopCounterMode` counts attention as if there were no causal mask."""
    is_attention = isinstance(what, CoreAttention)
    return float(what.q_len * what.kv_len / what.pairs) if is_attention else 1.0


def real(script: Script, world: int, timeout_s: float = 300.0) -> dict[int, RankStep]:
    """All ranks of a real run over Gloo."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1"}
        shared |= {"MASTER_PORT": free_port(), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": 1}
        shared["PYTHONPATH"] = str(_ROOT) + os.pathsep + os.environ.get("PYTHONPATH", "")
        words = ["-m" * script.is_module, script.name, *script.arguments]
        ranks = []
        for rank in range(world):
            given = {**shared, "RANK": rank, "LOCAL_RANK": rank}
            command = [sys.executable, "-m", "tests.capture.real_run", str(folder / str(rank)), *words]
            ranks.append(
                subprocess.Popen(
                    [*filter(None, command)],
                    env=os.environ | {name: str(value) for name, value in given.items()},
                    stdout=stack.enter_context((folder / f"{rank}.txt").open("w")),
                    stderr=subprocess.STDOUT,
                )
            )
            stack.callback(ranks[-1].kill)
        codes = [one.wait(timeout_s) for one in ranks]
        if any(codes):
            texts = "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.txt")))
            raise RuntimeError(f"ranks ended with {codes}:\n{texts}")
        steps = {rank: json.loads((folder / str(rank)).read_text()) for rank in range(world)}
    return {
        rank: RankStep(one["flops"], one["peak_bytes"], [(kind, size) for kind, size in one["sent"]])
        for rank, one in steps.items()
    }


_KINDS: Final = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "allgather": "all-gather",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
    "send": "send",
    "recv": "recv",
}


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    found: list[torch.Tensor] = []
    tree_map_only(torch.Tensor, found.append, values)
    yield from found


def _size(values: Any) -> float:
    return float(sum(one.numel() * one.element_size() for one in _tensors(values)))


def _of_subclass(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A subclass says what its parts do; fake tensors, with which DTensor works out shapes, do nothing."""
    if any(issubclass(one, FakeTensor) for one in types):
        return func(*args, **kwargs)
    return None if _PLAIN.issuperset(types) else NotImplemented


class Measured(TorchDispatchMode):  # type: ignore[misc]
    """Storages that are alive, and what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, float]] = []
        self.alive: dict[int, int] = {}
        self.total = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (answer := _of_subclass(func, types, args, kwargs)) is not None:
            return answer
        out = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2].lstrip("_")
        if "c10d" in func.namespace:
            kind = next((kind for word, kind in _KINDS.items() if name.startswith(word)), None)
            if kind:  # of what goes in and what comes out the larger
                self.sent.append((kind, max(_size(one) for one in (*args[:2], out))))
        for tensor in _tensors((args, kwargs, out)):
            self.see(tensor)
        return out

    def see(self, tensor: torch.Tensor) -> None:
        if tensor.device.type == "meta" or type(tensor) not in _PLAIN:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.alive:
            weakref.finalize(storage, self.change, key, None).atexit = False
        self.change(key, storage.nbytes())

    def change(self, key: int, size: int | None) -> None:
        self.total += (size or 0) - self.alive.pop(key, 0)
        if size is not None:
            self.alive[key] = size
        self.peak = max(self.peak, self.total)


class LocalFlops(_FlopCounterMode):  # type: ignore[misc]
    """Of a rank's own tensors: those that are sharded say what their parts do."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (answer := _of_subclass(func, types, args, kwargs or {})) is not None:
            return answer
        return super().__torch_dispatch__(func, types, args, kwargs)


class OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """What names CUDA gets the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.pin_memory:
            return args[0]
        args, kwargs = tree_map_only((str, torch.device), self._posing, (args, kwargs or {}))
        return func(*args, **kwargs)

    @staticmethod
    def _posing(value: Any) -> Any:
        return torch.device("cpu") if str(value).startswith("cuda") else value


def _pose_as_accelerator() -> None:
    """What programs ask of an accelerator before they use it."""
    torch.accelerator.is_available = lambda: True
    torch.accelerator.device_count = lambda: int(os.environ["WORLD_SIZE"])
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cpu")
    torch.accelerator.set_device_index = torch.cuda.set_device = lambda _: None
    chooser: Any = sys.modules["torch.optim.optimizer"]
    chooser._get_foreach_kernels_supported_devices = lambda: ["cpu", "cuda"]
    wrap, shard = torch.nn.parallel.DistributedDataParallel.__init__, torch.distributed.fsdp.fully_shard
    begin = dist.init_process_group

    def without_ids(self: Any, *args: Any, **kwargs: Any) -> None:
        wrap(self, *args, **{**kwargs, "device_ids": None, "output_device": None})

    def without_average(*args: Any, **kwargs: Any) -> Any:
        made = shard(*args, **kwargs)
        made.set_force_sum_reduction_for_comms(True)  # Gloo has no average
        return made

    torch.nn.parallel.DistributedDataParallel.__init__ = without_ids
    torch.distributed.fsdp.fully_shard = without_average
    dist.init_process_group = lambda *args, **kwargs: begin(*args, **{**kwargs, "device_id": None})


def _shard_attention() -> None:
    """By heads, as that of CUDA, which alone DTensor knows how to share out."""
    aten = torch.ops.aten
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default

    @register_sharding(forward)
    def _forward(*args: Any, **_: Any) -> Any:
        ways = ([one] * 3 + [None] * (len(args) - 3) for one in (Shard(1), Replicate()))
        return [([way[0]] * 2, way) for way in ways]

    @register_sharding(backward)
    def _backward(*args: Any, **_: Any) -> Any:
        ways = ([one] * 6 + [None] * (len(args) - 6) for one in (Shard(1), Replicate()))
        return [([way[0]] * 3, way) for way in ways]


class RealStep:
    """Measures a script's steps, and leaves it after the fourth one.

    In the second or third DDP also tells the other ranks how it has rebuilt its buckets, once for all.
    """

    def __init__(self, path: str) -> None:
        self.path, self.measured = Path(path), Measured()
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        known = {
            attention: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
            backward: lambda g, q, k, v, *_, **__: sdpa_backward_flop_count(g, q, k, v),
        }
        self.counter = FlopCounterMode(display=False, custom_mapping=known)
        self.marks: list[StepMark] = []
        self.flops: list[float] = []
        self.peaks: list[float] = []

    def run(self, words: list[str]) -> None:
        _pose_as_accelerator()
        _shard_attention()
        resize = torch.UntypedStorage.resize_

        def resized(storage: Any, size: int) -> Any:
            made = resize(storage, size)
            if storage._cdata in self.measured.alive:
                self.measured.change(storage._cdata, storage.nbytes())
            return made

        torch.UntypedStorage.resize_ = resized
        register_optimizer_step_post_hook(lambda optimizer, *_: self.mark(optimizer))
        is_module = words[0] == "-m"
        sys.argv = words[is_module:]
        with OnCpu(), self.measured, LocalFlops(self.counter):
            if is_module:
                runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(sys.argv[0]).parent))
                runpy.run_path(sys.argv[0], run_name="__main__")

    def mark(self, optimizer: object) -> None:
        self.flops.append(float(self.counter.get_total_flops()))
        self.peaks.append(float(self.measured.peak))
        self.measured.peak = self.measured.total
        at = len(self.marks)
        self.marks.append(StepMark(len(self.measured.sent), at, id(optimizer)))
        again = next((i for i, one in enumerate(self.marks[1:], 1) if one.by == self.marks[0].by), 0)
        found = window(self.marks[2 * again :]) if again else None
        if found is None:
            return
        begin, end = found
        step = {
            "flops": self.flops[end.events] - self.flops[begin.events],
            "peak_bytes": max(self.peaks[begin.events + 1 : end.events + 1]),
            "sent": self.measured.sent[begin.calls : end.calls],
        }
        self.path.write_text(json.dumps(step))
        dist.barrier()
        os._exit(0)


if __name__ == "__main__":
    RealStep(sys.argv[1]).run(sys.argv[2:])
    sys.exit("the script ended before its fourth step")
