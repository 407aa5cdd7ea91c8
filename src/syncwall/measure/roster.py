"""Who takes part: every rank says who it is, rank 0 tells all.

Holds `connected` (the store of the job), `introduced` (the hosts by rank) and `left` (the end).
"""

import json
import os
import time
from datetime import timedelta
from typing import Any

from syncwall.measure.facts import Host, host_name
from syncwall.measure.heart import bounded, first_beat
from syncwall.measure.lost import LostRankError, first_line
from syncwall.measure.place import Place

_ROSTER = "roster"
_LINGER_S = 3.0
"""How long rank 0 keeps the store up for the others after it gave up on somebody."""


def connected(here: Place, timeout_s: float, *, listen: bool = True) -> Any:
    """A connection to the store, which rank 0 keeps (`listen`) unless torchrun does already."""
    import torch.distributed as dist

    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = dist.TCPStore(
            here.address, here.port, is_master=listen and here.rank == 0 and not kept,
            timeout=timedelta(seconds=timeout_s), wait_for_workers=False,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        raise LostRankError(
            f"rank 0 cannot be reached at {here.address}:{here.port} from host {host_name()} "
            f"(rank {here.rank}): {first_line(error)}"
        ) from None
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"syncwall/{attempt}", store)


def introduced(
    store: Any, here: Place, own: Host, timeout_s: float
) -> tuple[tuple[str, ...], tuple[Host, ...]]:
    """The hosts by rank, and on rank 0 the facts of each host, elsewhere of this one.

    Only rank 0 reads what all have written: a thousand ranks that each read a thousand entries
    would keep it busy for minutes.
    """
    store.set(f"host/{here.rank}", own.model_dump_json())
    first_beat(store, here.rank)
    store.add("joined", 1)
    if here.rank == 0:
        return _called(store, here.world, timeout_s)
    try:
        limit = timedelta(seconds=timeout_s + _LINGER_S)
        bounded(lambda: store.wait([_ROSTER], limit), timeout_s + 2 * _LINGER_S)
        roster = json.loads(store.get(_ROSTER))
    except (RuntimeError, OSError) as error:
        raise LostRankError(
            f"rank 0 at {here.address}:{here.port} does not answer host {own.name} "
            f"(rank {here.rank}): {first_line(error)}"
        ) from None
    if "missing" in roster:
        raise LostRankError(roster["missing"])
    return tuple(roster["hosts"]), (own,)


def _called(store: Any, world: int, timeout_s: float) -> tuple[tuple[str, ...], tuple[Host, ...]]:
    """Rank 0's part: wait for all and tell all who they are, or who is missing."""
    end = time.monotonic() + timeout_s
    while (count := store.add("joined", 0)) < world:
        if time.monotonic() > end:
            absent = [rank for rank in range(world) if not store.check([f"host/{rank}"])]
            said = (
                f"{count} of {world} ranks have joined within {timeout_s:.0f} s; "
                f"missing: rank {', '.join(map(str, absent))}"
            )
            store.set(_ROSTER, json.dumps({"missing": said}))
            time.sleep(_LINGER_S)
            raise LostRankError(said)
        time.sleep(0.05)
    texts = store.multi_get([f"host/{rank}" for rank in range(world)])
    every = [Host.model_validate_json(text) for text in texts]
    names = tuple(host.name for host in every)
    store.set(_ROSTER, json.dumps({"hosts": names}))
    return names, tuple({host.name: host for host in every}.values())


def left(store: Any, here: Place, timeout_s: float) -> None:
    """Leave; rank 0, which keeps the store, leaves last."""
    store.add("left", 1)
    end = time.monotonic() + timeout_s
    while here.rank == 0 and store.add("left", 0) < here.world and time.monotonic() < end:
        time.sleep(0.01)
