"""FSDP's CPU offload, which all frameworks on it switch by one key.

Holds `take_cpu_offload` and `has_cpu_offload`. `fully_shard(offload_policy=CPUOffloadPolicy())`
keeps weights, gradients and optimizer states on the host, where the optimizer runs.
"""

from typing import Final

from syncwall.describe.layout import Layout, Shard
from syncwall.describe.settings.keys import Keys

FIELDS: Final = ("offload_weights", "offload_gradients", "offload_optimizer")


def take_cpu_offload(keys: Keys, *at: str) -> None:
    """State what the key at `at`, which is true, keeps on the host.

    The sharding is known by now; where weights stay gathered, nothing of it is described.
    """
    if keys.layout.get("shard") != Shard.FSDP or keys.layout.get("pp", 1) > 1:
        keys.note("offloading is modelled for fully sharded weights only: ignored", *at)
        return
    for field in FIELDS:
        keys.take(field, True, *at)


def has_cpu_offload(layout: Layout) -> bool:
    """True if `layout` keeps on the host what that key does."""
    return all(getattr(layout, field) for field in FIELDS)
