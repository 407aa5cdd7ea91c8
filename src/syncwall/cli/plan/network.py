"""`syncwall plan network`: the slowest network on which a run stays efficient.

Holds `network`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.run_flags import RunFlags, Whose, gpu_counts, share_of
from syncwall.cli.work_flags import WorkFlags, Works
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.plan.network.targets import TargetLimits


def network(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    efficiency: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "90%",
    exposed: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "5%",
    reached: Annotated[str | None, tyro.conf.arg(metavar="SHARE")] = None,
    strong: bool = False,
    out: Output = OutputFlags(),  # noqa: B008
    recorded: Works = WorkFlags(),  # noqa: B008
) -> int:
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    The run is as stated on its --nodes, or on the first of its --gpus; the batch is the model's
    published one and the layout the best by search where nothing of them is given.

    Args:
        whose: The run; the NICs of its cluster are what is varied.
        efficiency: Step on an ideal network over step on the real one.
        exposed: Share of the step that may wait for the network and still count as hidden.
        reached: Share of the advertised NIC rate that collectives reach, such as 80% (a rule of
            thumb); the machine's own, or what fits measured runs, if not given.
        strong: Keep the global batch for all numbers of GPUs; else that of a GPU.
        out: Where the answer goes.
        recorded: A program in place of the run: each rank keeps its batch.
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.plan.network.needed import NetworkPlan, needed
    from syncwall.plan.network.targets import Target, TargetLimits
    from syncwall.plan.reference import reference

    out.check()
    limits = TargetLimits(_share("efficiency", efficiency), _share("exposed", exposed))
    rate = _share("reached", reached) if reached else None
    counts = gpu_counts(whose.gpus)
    if recorded.work is not None:
        if rate is not None or strong:
            raise InputError.of("--reached and --strong are for descriptions")
        return _program(recorded, whose, out, counts, limits)
    first = None if whose.nodes or not counts else str(counts[0])
    with searched_first(whose.catalogue), bar("networks") as progress:
        start = reference(replace(whose, gpus=first).said())
        found = needed(start, counts, limits, reached=rate, strong=strong, progress=progress)
    out.write(NetworkPlan(start, found))
    impossible = any(one.nic_bytes_per_s.get(Target.EFFICIENCY, 0.0) is None for one in found)
    return int(impossible)


def _program(
    recorded: WorkFlags, whose: RunFlags, out: OutputFlags, counts: list[int],
    limits: "TargetLimits",
) -> int:  # fmt: skip
    """The network that a recorded program needs."""
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.plan.network.program import program_network
    from syncwall.plan.network.targets import Target
    from syncwall.plan.programs import ProgramCase

    with searched_first(whose.catalogue), bar("networks") as progress:
        case = ProgramCase(**vars(recorded.recorded(whose, free=("gpus",))))
        found = program_network(case, counts, limits, progress=progress)
        out.write(found)
    return int(any(one.nic_bytes_per_s[Target.EFFICIENCY] is None for one in found.counts))


def _share(flag: str, text: str) -> float:
    """A share such as 80% or 0.8."""
    value = share_of(text)
    if value is None or not 0.0 < value <= 1.0:
        raise InputError.of(f'--{flag}: "{text}" is not a share: write for example "80%"')
    return value
