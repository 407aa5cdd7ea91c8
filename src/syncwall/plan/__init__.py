"""What to run and what to buy: layouts, the sync wall, the network, the fabric.

Holds `layouts`, the search of `syncwall plan layouts`:

    >>> import syncwall as sw
    >>> found = sw.plan.layouts(sw.model("llama-3.1-8b"), sw.cluster("dgx-h100"), global_batch=64,
    ...                         pinned={"cp": 1})
    >>> found.best(1)[0].prediction.fits
    True
"""

from syncwall.plan.search import search as layouts

__all__ = ["layouts"]
