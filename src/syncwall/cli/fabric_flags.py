"""The flags with which `predict` takes a fabric whose links flows share.

Holds `FabricFlags`, and `links_named`, `kind_named`, `ratio` and `check_qps` for other verbs with
such flags.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from syncwall.network import Routing
from syncwall.problems import InputError, refuse_unknown

if TYPE_CHECKING:
    from syncwall.cost.contended_network import SharedLinks
    from syncwall.describe import Cluster
    from syncwall.network.graph import Links
    from syncwall.plan.choices import FabricKind


@dataclass(frozen=True)
class FabricFlags:
    """A fabric, and how flows find their way over it."""

    fabric: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Predict with flows that share links: a kind of `plan fabric`, with a ratio if it is not
    non-blocking (rail-optimised,4:1), `tiers` for those of the cluster, or a file of ibnetdiscover,
    topograph, NetQ, Slurm (topology.conf) or, of one node, NCCL (NCCL_TOPO_DUMP_FILE)."""
    routing: Routing = "ecmp"
    """How they find their way: hashed (ecmp), by fixed tables, over whatever is free (adaptive:
    InfiniBand, spraying), or over a random group of a dragonfly first."""
    qps: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Queue pairs of a connection, each hashed by itself (NCCL_IB_QPS_PER_CONNECTION)."""
    rank_order: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Nodes in the order of ranks, one a line, as in SLURM_HOSTFILE; those of the fabric in their
    own order if not given."""

    def shared(self, cluster: "Cluster") -> "SharedLinks | None":
        """The links that are meant; None if no fabric is."""
        if self.fabric is None:
            stated = self.routing != "ecmp" or self.qps != 1 or self.rank_order is not None
            if stated:
                raise InputError.of("--routing, --qps and --rank-order are of --fabric: add it")
            return None
        from syncwall.cost.contended_network import SharedLinks

        check_qps(self.qps)
        links = links_named(self.fabric, cluster)
        order = None
        if self.rank_order:
            from syncwall.read.links import rank_order

            order = rank_order(self.rank_order, links)
        return SharedLinks(links, self.routing, self.qps, order, self.fabric)


def check_qps(qps: int) -> None:
    """InputError if no connection has so many queue pairs."""
    if not 1 <= qps <= 128:
        raise InputError.of(f"--qps: {qps} is not a count from 1 to 128")


def links_named(name: str, cluster: "Cluster", *, places: bool = False) -> "Links":
    """Links of a kind of fabric, of the cluster's tiers, or of a file.

    With `places`, one that says where nodes stand.
    """
    from syncwall.network.graph import links_of_tiers
    from syncwall.plan.choices import KINDS
    from syncwall.plan.fabric.links import fabric_named

    if name == "tiers":
        return links_of_tiers(cluster)
    word, _, narrower = name.partition(",")
    if word not in KINDS and Path(name).exists():
        from syncwall.read.links import links_of_file

        return links_of_file(Path(name), cluster, places=places)
    said = f'--fabric: "{word}" is neither a file nor a kind of fabric'
    refuse_unknown(word, KINDS if narrower else (*KINDS, "tiers"), said)
    kind = next(kind for kind in KINDS if kind == word)
    return fabric_named(kind, cluster, (ratio(narrower or "1", "--fabric"), 1.0))


def kind_named(name: str | None) -> "FabricKind | None":
    """The kind called `name`; InputError suggests the nearest."""
    from syncwall.plan.choices import KINDS

    if name is not None:
        refuse_unknown(name, KINDS, f'--kind: unknown kind "{name}"')
    return next((kind for kind in KINDS if kind == name), None)


def ratio(text: str, flag: str = "--oversubscription") -> float:
    """3 and 3:1 and 1:3 as 3."""
    try:
        sides = [float(side) for side in text.split(":")]
        large, small = max(sides), (min(sides) if len(sides) > 1 else 1.0)
        if len(sides) > 2 or small <= 0:
            raise ValueError
    except ValueError:
        message = f'{flag}: "{text}" is not a ratio: write 3, 3:1, or 1,7 for leaf,spine'
        raise InputError.of(message) from None
    return large / small


Fabrics = Annotated[FabricFlags, tyro.conf.arg(name="")]
"""Flags without a prefix."""
