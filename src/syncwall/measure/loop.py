"""The training loop that is timed, in PyTorch: DDP, FSDP2 or each rank for itself.

Holds `measure_step`. Weights and data are random. Imported only where torch is installed.
`profiled`, `loading` and `HOST_KEY`: a profile of the steps that are measured: one file a rank, as
PyTorch's profiler writes it. Imported only where torch is installed.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from syncwall.cause import Cause
from syncwall.measure.kernel_times import timed_kernel
from syncwall.measure.layers import built
from syncwall.measure.team import Team
from syncwall.measure.training_step import CAUSES, LOADER_DELAY, StepData, StepSettings, summed_up
from syncwall.measure.trials import torch_dtype

_LOADING = "enumerate(DataLoader)#measure"
"""Begins as the names that PyTorch's own loaders give their part of a trace."""
_MOST_STEPS = 50
HOST_KEY = "syncwall_host"
"""Key of the trace for the name of the host, which hosts of a lab do not have in the kernel."""


@contextmanager
def profiled(team: Team, directory: str | None, warm_up: int, steps: int) -> Iterator[Callable[[], None]]:
    """Lends what is to be called after each step; writes `rank<n>.json.gz` into `directory`.

    Without a directory nothing is recorded, and the call does nothing.
    """
    if directory is None:
        yield lambda: None
        return
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    plan = schedule(
        wait=max(warm_up - 1, 0), warmup=min(warm_up, 1), active=min(steps, _MOST_STEPS), repeat=1
    )
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if team.device.type == "cuda" else []
    with profile(
        activities=activities,
        schedule=plan,
        on_trace_ready=lambda done: _write(done, folder, team),
        record_shapes=True,  # the sizes of Gloo's collectives are written nowhere else
    ) as recorder:

        def step_is_done() -> None:
            recorder.step()
            recorder.add_metadata(HOST_KEY, team.hosts[team.rank])  # forgotten before it records

        yield step_is_done


def _write(recorder: Any, folder: Path, team: Team) -> None:
    recorder.export_chrome_trace(str(folder / f"rank{team.rank}.json.gz"))


@contextmanager
def loading() -> Iterator[None]:
    """The part of a step in which a data loader would deliver a batch."""
    with record_function(_LOADING):
        delay_s = os.environ.get(LOADER_DELAY)
        if delay_s:
            time.sleep(float(delay_s))
        yield


_MATMUL = {"cpu": 768, "cuda": 8192}
_GATHERS = ("all_gather_into_tensor", "all_gather_single")
_REDUCTIONS = ("reduce_scatter_tensor", "reduce_scatter_single", "all_reduce")
"""What releases of FSDP2 call; the second names came with PyTorch 2.13."""


def measure_step(
    team: Team,
    settings: StepSettings,
    progress: Callable[[float], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    keep: Callable[[StepData], None] = lambda _: None,
) -> StepData:
    """Run the steps, until `stopped` on all ranks, and sum them up.

    If a rank is lost, `keep` gets what this one alone knows of the steps before.
    """
    matmul = _matmul_flop_per_s(team, settings.precision)
    ledgers: list[dict[Cause, float]] = []
    try:
        _run_steps(team, settings, ledgers, progress, stopped)
        every = team.gathered(ledgers)
        slowest = team.slowest([sum(ledger.values()) for ledger in ledgers])
    except Exception:
        if ledgers:
            own = [sum(ledger.values()) for ledger in ledgers]
            keep(summed_up([ledgers], own, team.hosts, settings, matmul))
        raise
    return summed_up(every, slowest, team.hosts, settings, matmul)


def _matmul_flop_per_s(team: Team, precision: str) -> float:
    """FLOP/s of one large multiplication on every rank at once."""
    size = _MATMUL[team.device.type]
    first, second = (
        torch.randn(size, size, device=team.device, dtype=torch_dtype(precision)) for _ in range(2)
    )
    kept: list[Any] = []
    taken = timed_kernel(team, kept.clear, lambda: kept.append(first @ second), 0.3)
    return float(2.0 * size**3 / sorted(taken)[len(taken) // 2])


def _run_steps(
    team: Team,
    settings: StepSettings,
    ledgers: list[dict[Cause, float]],
    progress: Callable[[float], None],
    stopped: Callable[[], bool],
) -> None:
    """Adds the ledger of each step on this rank, the warm-up left out."""
    torch.manual_seed(team.rank)
    module = _shared_out(built(settings.model, settings.seq).to(team.device), team, settings)
    clock = _Clock(team, module, overlapped=settings.shard == "ddp")
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)
    total = settings.warm_up + settings.steps
    team.barrier()
    with profiled(team, settings.profile, settings.warm_up, settings.steps) as step_is_done:
        for number in range(total):
            ledger = _step(module, optimizer, clock, team, settings)
            if number >= settings.warm_up:
                ledgers.append(ledger)
            progress((number + 1) / total)
            if ledgers and stopped():
                break
            step_is_done()


def _step(
    module: Any, optimizer: Any, clock: "_Clock", team: Team, settings: StepSettings
) -> dict[Cause, float]:
    """One step, each part on its own account."""
    size = (settings.micro_batch, settings.seq)
    clock.begin()
    with loading():
        tokens = torch.randint(0, settings.model.vocab, size).to(team.device)
    clock.book(Cause.DATA)
    with clock.collectives():
        loss = _forward(module, tokens, settings)
        clock.book(Cause.FORWARD)
        loss.backward()
        clock.book(Cause.BACKWARD)
    optimizer.step()
    optimizer.zero_grad()
    clock.book(Cause.OPTIMIZER)
    return clock.end()


def _forward(module: Any, tokens: Any, settings: StepSettings) -> Any:
    half = settings.precision == "bf16" and settings.shard != "fsdp"
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=half):
        return module(tokens, tokens)


def _shared_out(module: Any, team: Team, settings: StepSettings) -> Any:
    if team.world == 1 or settings.shard == "none":
        return module
    if settings.shard == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(
            module,
            device_ids=None if team.device.type == "cpu" else [team.device.index],
            bucket_cap_mb=settings.bucket_bytes / 2**20,
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(team.device.type, (team.world,))
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if settings.precision == "bf16" else None,
        reduce_dtype=torch.float32,
    )
    parts = [module.embedding, *module.layers, [module.norm, module.head]]
    for part in parts:
        fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    return fully_shard(module, mesh=mesh, mp_policy=policy)


class _Clock:
    """Books the time of a step on accounts.

    With DDP, what lies between the last gradient and the end of the backward pass is exposed
    communication; with FSDP2 on CPUs, it is the time inside collectives.
    """

    def __init__(self, team: Team, module: Any, *, overlapped: bool) -> None:
        self._team = team
        self._ledger: dict[Cause, float] = {}
        self._now = self._begun = self._last_gradient = 0.0
        self._waited: dict[Cause, float] = {}
        self._overlapped = overlapped and team.world > 1
        if self._overlapped:
            for parameter in module.parameters():
                parameter.register_post_accumulate_grad_hook(self._gradient_is_there)

    def begin(self) -> None:
        """Start a step."""
        self._team.synchronize()
        self._ledger = dict.fromkeys(CAUSES, 0.0)
        self._waited = {}
        self._begun = self._now = time.perf_counter()

    def book(self, cause: Cause) -> None:
        """Put the time since the last booking on `cause`, less what went into collectives."""
        self._team.synchronize()
        now = time.perf_counter()
        taken = now - self._now
        if cause is Cause.BACKWARD and self._overlapped and self._team.device.type == "cpu":
            exposed = now - self._last_gradient
            self._ledger[Cause.EXPOSED_DP] += exposed
            taken -= exposed
        for waited_for, seconds in self._waited.items():
            self._ledger[waited_for] += seconds
            taken -= seconds
        self._waited = {}
        self._ledger[cause] += taken
        self._now = now

    def end(self) -> dict[Cause, float]:
        """The ledger of the step."""
        self._ledger[Cause.REST] = time.perf_counter() - self._now
        return dict(self._ledger)

    def _gradient_is_there(self, _: Any) -> None:
        self._last_gradient = time.perf_counter()

    @contextmanager
    def collectives(self) -> Iterator[None]:
        """Time the blocking collectives of FSDP2; on GPUs they return at once."""
        if self._overlapped or self._team.device.type != "cpu" or self._team.world == 1:
            yield
            return
        known = [name for name in (*_GATHERS, *_REDUCTIONS) if hasattr(dist, name)]
        before = {name: getattr(dist, name) for name in known}
        for name, function in before.items():
            cause = Cause.EXPOSED_GATHER if name in _GATHERS else Cause.EXPOSED_DP
            setattr(dist, name, self._timed(function, cause))
        try:
            yield
        finally:
            for name, function in before.items():
                setattr(dist, name, function)

    def _timed(self, function: Callable[..., Any], cause: Cause) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                taken = time.perf_counter() - begun
                self._waited[cause] = self._waited.get(cause, 0.0) + taken

        return call
