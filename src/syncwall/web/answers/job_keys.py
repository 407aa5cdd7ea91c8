"""Jobs as the keys of a job file, and what can be chosen for them.

Holds `changed_keys` and `job_options`.
"""

from functools import cache
from typing import Any

from syncwall import catalogue, units
from syncwall.catalogue import Kind
from syncwall.describe import Job
from syncwall.describe.base import Description
from syncwall.describe.lookup import failure_rates, prices
from syncwall.units import Dimension


def changed_keys(before: Description, after: Description) -> dict[str, Any]:
    """Keys of a job file that make the one of the other; null where nothing is stated any more."""
    found: dict[str, Any] = {}
    for name, field in type(after).model_fields.items():
        old, new, key = getattr(before, name), getattr(after, name), field.alias or name
        if isinstance(new, Description) and isinstance(old, type(new)):
            if not isinstance(after, Job) or name != "run":
                inner = changed_keys(old, new)
                found |= {f"{key}.{part}": text for part, text in inner.items()}
        elif old != new:
            found[key] = _written(name, new)
    return found


def _written(name: str, value: Any) -> Any:
    """A value as a file writes it: with its unit."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if name.endswith("_bytes_per_s"):
        return units.format(float(value), Dimension.BYTES_PER_S)
    if name.endswith("_s"):
        return units.format(float(value), Dimension.SECONDS)
    return value


@cache
def job_options() -> dict[str, Any]:
    """Studies of failures, and what sellers ask for a GPU-hour."""
    studies = [failure_rates(name) for name in catalogue.names(Kind.FAILURE)]
    return {
        "failures": [
            {
                "name": one.name,
                "title": one.title or one.name,
                "note": one.note,
                "source": (one.provenance or {}).get("source"),
                "causes": [cause.name for cause in one.causes],
            }
            for one in studies
        ],
        "prices": [
            {
                "seller": seller.title or seller.name,
                "device": offer.device,
                "cluster": offer.cluster,
                "usd_per_gpu_hour": float(offer.price_usd_per_gpu_hour),
                "terms": offer.terms,
                "date": offer.date,
            }
            for seller in prices()
            for offer in seller.offers
        ],
    }
