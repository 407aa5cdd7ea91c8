"""`syncwall plan network`: the slowest network on which a run stays efficient.

Holds `network`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.run_flags import LayoutFlags, SoftwareFlags, stated
from syncwall.cli.shares import share_of
from syncwall.problems import InputError


def network(  # noqa: PLR0913, PLR0917 - the flags of the verb
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None,
    /,
    model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    nodes: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    gpus_per_node: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    seq: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    from_file: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    layout: LayoutFlags = LayoutFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    software: SoftwareFlags = SoftwareFlags(),  # noqa: B008
    gpus: Annotated[str | None, tyro.conf.arg(metavar="COUNTS")] = None,
    efficiency: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "90%",
    exposed: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "5%",
    reached: Annotated[str | None, tyro.conf.arg(metavar="SHARE")] = None,
    strong: bool = False,
    json: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    Args:
        file: A run file (YAML); flags override what it says.
        model: Catalogue name, or a path (YAML, Hugging Face config.json or its directory).
        cluster: Catalogue name, or a path; its NICs are what is varied.
        nodes: Nodes on which the run is as stated; the fewest possible if not given.
        gpus_per_node: GPUs used in each node.
        seq: Tokens in a sequence.
        from_file: Take the layout from settings of torchtitan (TOML), Megatron-LM (arguments),
            DeepSpeed (JSON) or Hugging Face accelerate (YAML); flags override them.
        layout: Parallel layout, as in a run file; the best by search if nothing of it is given.
        software: Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ...
        gpus: Numbers of GPUs, such as 64,512,4096; those of `nodes`, 8 and 64 times as many.
        efficiency: Step on an ideal network over step on the real one.
        exposed: Share of the step that may wait for the network and still count as hidden.
        reached: Share of the advertised NIC rate that collectives reach, such as 80% (a rule of
            thumb); the machine's own, or what fits measured runs, if not given.
        strong: Keep the global batch for all numbers of GPUs; else that of a replica.
        json: Print JSON, quantities in SI units.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.from_file import settings_of
    from syncwall.plan.network.needed import needed
    from syncwall.plan.network.targets import Limits, Target
    from syncwall.plan.reference import reference
    from syncwall.show.requirement import requirement_page
    from syncwall.show.requirement_record import requirement_record
    from syncwall.show.terminal import print_json, print_page

    flags = stated(
        layout, software,
        model=model, cluster=cluster, nodes=nodes, gpus_per_node=gpus_per_node, seq=seq,
    )  # fmt: skip
    limits = Limits(_share("efficiency", efficiency), _share("exposed", exposed))
    rate = _share("reached", reached) if reached else None
    with searched_first(catalogue):
        start = reference(file, flags, settings_of(from_file))
        found = needed(start, _counts(gpus), limits, reached=rate, strong=strong)
    if json:
        print_json(requirement_record(found, start))
    else:
        print_page(requirement_page(found, start))
    impossible = any(one.nic_bytes_per_s.get(Target.EFFICIENCY, 0.0) is None for one in found)
    return int(impossible)


def _share(flag: str, text: str) -> float:
    """A share such as 80% or 0.8."""
    value = share_of(text)
    if value is None or not 0.0 < value <= 1.0:
        raise InputError.of(f'--{flag}: "{text}" is not a share: write for example "80%"')
    return value


def _counts(text: str | None) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")] if text else []
    except ValueError:
        counts = [0]
    if any(count < 1 for count in counts):
        raise InputError.of(f'--gpus: "{text}" is no list of numbers: write for example "64,512"')
    return counts
