"""What to run and what to buy: layouts, the sync wall, the network, the fabric, placements.

    >>> import syncwall as sw
    >>> found = sw.plan.layouts(sw.model("llama-3.1-8b"), sw.cluster("dgx-h100"), global_batch=64,
    ...                         pinned={"cp": 1})
    >>> found.best(1)[0].prediction.fits
    True

`layouts`, `wall`, `network`, `fabric` and `placement` answer what the verbs of `syncwall plan` do;
all but the first are packages, too, which are called like them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncwall.ask.fabric import fabric as fabric
    from syncwall.ask.fabric import placement as placement
    from syncwall.ask.plan import layouts as layouts
    from syncwall.ask.plan import network as network
    from syncwall.ask.plan import wall as wall

__all__ = ["fabric", "layouts", "network", "placement", "wall"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'syncwall.plan' has no attribute {name!r}")
    if name == "layouts":
        return import_module("syncwall.ask.plan").layouts
    return import_module(f"syncwall.plan.{name}")


def __dir__() -> list[str]:
    return __all__
