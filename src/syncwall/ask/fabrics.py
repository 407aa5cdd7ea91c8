"""Fabrics as they are named: a kind with its ratio, the tiers of a cluster, or a file.

Holds `links_named` and `ratio`.
"""

from pathlib import Path

from syncwall.describe import Cluster
from syncwall.describe.names import files_refused
from syncwall.network.graph import Links, links_of_tiers
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.links import fabric_named
from syncwall.problems import InputError, option, refuse_unknown


def links_named(name: str, cluster: Cluster, *, places: bool = False) -> Links:
    """Links of a kind of fabric, of the cluster's tiers, or of a file.

    With `places`, one that says where nodes stand.
    """
    if name == "tiers":
        return links_of_tiers(cluster)
    word, _, narrower = name.partition(",")
    if word not in KINDS and not files_refused() and Path(name).exists():
        from syncwall.read.links import links_of_file

        return links_of_file(Path(name), cluster, places=places)
    said = f'{option("fabric")}: "{word}" is neither a file nor a kind of fabric'
    refuse_unknown(word, KINDS if narrower else (*KINDS, "tiers"), said)
    kind = next(kind for kind in KINDS if kind == word)
    return fabric_named(kind, cluster, (ratio(narrower or "1", "fabric"), 1.0))


def ratio(text: str, key: str = "oversubscription") -> float:
    """3 and 3:1 and 1:3 as 3."""
    try:
        sides = [float(side) for side in text.split(":")]
        large, small = max(sides), (min(sides) if len(sides) > 1 else 1.0)
        if len(sides) > 2 or small <= 0:
            raise ValueError
    except ValueError:
        message = f'"{text}" is not a ratio: write 3, 3:1, or 1,7 for leaf,spine'
        raise InputError.of(message, key=key) from None
    return large / small
