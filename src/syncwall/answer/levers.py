"""What may be changed in a layout without changing what is trained, one thing at a time.

Holds `Lever`, `LEVERS` and `single_changes`. Proposals are the best of these changes, and what a
search leaves as it is can be tried by them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from syncwall.describe import Run
from syncwall.describe.choice import text_of
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Schedule, Shard
from syncwall.describe.rules import can_share
from syncwall.describe.software import Framework, at

SHARD_DOMAINS: Final = (1, 4, 16)
"""Scale-up domains over which a copy of the states is also spread, besides all ranks (HSDP)."""
ORDERS: Final = (("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp"))
"""Which ranks stand next to each other: those of data parallelism, or those of the pipeline."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One field, and the values that it might have in a run."""

    field: str
    values: Callable[[Run, Framework], Any]
    matters: Callable[[Run], bool] = lambda run: True


@dataclass(frozen=True, slots=True)
class SingleChange:
    """A layout that differs in one thing, and what has to follow it."""

    field: str
    fields: dict[str, Any]
    """What changes; None is filled in again."""

    @property
    def words(self) -> str:
        """In the words of the layout's keys."""
        value = self.fields[self.field]
        if self.field == "virtual_stages" and value > 1:
            return f"interleaved, virtual_stages {value}"
        if self.field == "shard_degree":
            return f"shard_degree {value} (HSDP)"
        return f"{self.field} {text_of(value)}"


def single_changes(run: Run, asked: Run, family: Framework) -> Iterator[SingleChange]:
    """Every change of one field of a settled `run`, to be stated in the run that was `asked`.

    The batch and the GPUs stay.
    """
    for lever in LEVERS:
        if lever.matters(run):
            for value in lever.values(run, family):
                if value != getattr(run.layout, lever.field):
                    fields = {lever.field: value, **_following(asked.layout, lever.field, value)}
                    yield SingleChange(lever.field, fields)


def _following(layout: Layout, field: str, value: Any) -> dict[str, Any]:
    """What else has to change with `field`."""
    found: dict[str, Any] = {}
    if field in ("tp", "pp", "cp"):
        found |= {"dp": None, "shard_degree": None}
    if field == "shard":
        found["shard_degree"] = None
    if field == "tp" and value == 1:
        found["sp"] = False
    if field == "tp" and layout.etp == layout.tp:
        found["etp"] = value
    if field == "pp" and (value == 1 or layout.schedule == Schedule.INTERLEAVED):
        found |= {"virtual_stages": 1, "schedule": Schedule.ONE_F_ONE_B}
    if field in ("pp", "balanced_stages") and layout.pp > 1:
        found |= {"first_stage_layers": None, "last_stage_layers": None}
    if field == "virtual_stages":
        found["schedule"] = Schedule.INTERLEAVED if value > 1 else Schedule.ONE_F_ONE_B
    if field == "schedule":
        found["virtual_stages"] = 1
    if field == "ep" and value == 1:
        found |= {"dispatcher": None, "overlap_ep": False}
    return found


def divisors(number: int) -> list[int]:
    """Every divisor of `number`, the smallest first."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def virtual_stage_counts(layers: int, pp: int) -> list[int]:
    """Virtual stages above one that cut the layers evenly; embedding and output layer may count."""
    cuts = range(2, layers // pp + 2)
    return [n for n in cuts if layers % (pp * n) == 0 or (layers + 2) % (pp * n) == 0]


def _ranks(run: Run, family: Framework) -> list[int]:
    return divisors(run.gpus)


def _replica_batch(run: Run, family: Framework) -> list[int]:
    return divisors(run.layout.global_batch // run.layout.dp)


def _experts(run: Run, family: Framework) -> list[int]:
    return divisors(run.model.moe.experts) if run.model.moe else []


def _virtual_stages(run: Run, family: Framework) -> list[int]:
    if Schedule.INTERLEAVED not in family.schedules:
        return [1]
    return [1, *virtual_stage_counts(run.model.layers, run.layout.pp)]


def _schedules(run: Run, family: Framework) -> list[Schedule]:
    return [one for one in family.schedules if one != Schedule.INTERLEAVED]


def _degrees(run: Run, family: Framework) -> list[int]:
    """All ranks, or those of a few scale-up domains."""
    whole = run.layout.dp * run.layout.cp
    parts = [run.cluster.domain_gpus * over // run.layout.tp for over in SHARD_DOMAINS]
    return [degree for degree in (*parts, whole) if 1 < degree <= whole]


def _switch(run: Run, family: Framework) -> tuple[bool, bool]:
    return (True, False)


def _dispatchers(run: Run, family: Framework) -> tuple[Dispatcher, ...]:
    return at(family.dispatchers, run.software.date)


def _sharded(run: Run) -> bool:
    return run.layout.shard != Shard.DDP


def _several(axis: str) -> Callable[[Run], bool]:
    return lambda run: int(getattr(run.layout, axis) or 1) > 1


def _replicas(run: Run) -> bool:
    return bool(can_share(run.model, run.layout))


def _moe(run: Run) -> bool:
    return run.model.moe is not None


LEVERS: Final = (
    Lever("micro_batch", _replica_batch),
    Lever("recompute", lambda run, family: family.recomputes),
    Lever("tp", _ranks),
    Lever("pp", _ranks),
    Lever("cp", _ranks),
    Lever("ep", _experts, _moe),
    Lever("etp", lambda run, family: (1, run.layout.tp), _moe),
    Lever("shard", lambda run, family: sorted(set(family.shards)), _replicas),
    Lever("shard_degree", _degrees, _sharded),
    Lever("virtual_stages", _virtual_stages, _several("pp")),
    Lever("schedule", _schedules, _several("pp")),
    Lever("sp", _switch, _several("tp")),
    Lever("overlap_tp", _switch, _several("tp")),
    Lever("async_tp", _switch, _several("tp")),
    Lever("overlap_gradients", _switch, _replicas),
    Lever("overlap_parameters", _switch, lambda run: _sharded(run) and _replicas(run)),
    Lever("overlap_pp", _switch, _several("pp")),
    Lever("balanced_stages", _switch, _several("pp")),
    Lever("overlap_ep", _switch, _several("ep")),
    Lever("dispatcher", _dispatchers, _several("ep")),
    Lever("cp_kind", lambda run, family: tuple(ContextKind), _several("cp")),
    Lever("fused_loss", _switch),
    Lever("order", lambda run, family: ORDERS, _several("pp")),
)
"""Fields that a person may choose. Those that change the numbers of the training (precision, batch,
DiLoCo, frozen weights) or that nobody chooses (imbalance of experts) are not among them, nor is how
many layers the ends of a pipeline have, which `balanced_stages` stands for."""
