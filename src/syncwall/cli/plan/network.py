"""`syncwall plan network`: the slowest network on which a run stays efficient.

Holds `network`.
"""

from dataclasses import replace
from typing import Annotated

import tyro

from syncwall.cli.run_flags import RunFlags, Whose, gpu_counts, share_of
from syncwall.problems import InputError


def network(
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    efficiency: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "90%",
    exposed: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "5%",
    reached: Annotated[str | None, tyro.conf.arg(metavar="SHARE")] = None,
    strong: bool = False,
    json: bool = False,
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
        json: Print JSON, quantities in SI units.
    """
    from syncwall.catalogue import searched_first
    from syncwall.plan.network.needed import needed
    from syncwall.plan.network.targets import Limits, Target
    from syncwall.plan.reference import reference
    from syncwall.show.headed import print_answer
    from syncwall.show.requirement import requirement_page, requirement_record

    limits = Limits(_share("efficiency", efficiency), _share("exposed", exposed))
    rate = _share("reached", reached) if reached else None
    counts = gpu_counts(whose.gpus)
    first = None if whose.nodes or not counts else str(counts[0])
    with searched_first(whose.catalogue):
        start = reference(replace(whose, gpus=first).said())
        found = needed(start, counts, limits, reached=rate, strong=strong)
    print_answer((found, start), as_json=json, page=requirement_page, record=requirement_record)
    impossible = any(one.nic_bytes_per_s.get(Target.EFFICIENCY, 0.0) is None for one in found)
    return int(impossible)


def _share(flag: str, text: str) -> float:
    """A share such as 80% or 0.8."""
    value = share_of(text)
    if value is None or not 0.0 < value <= 1.0:
        raise InputError.of(f'--{flag}: "{text}" is not a share: write for example "80%"')
    return value
