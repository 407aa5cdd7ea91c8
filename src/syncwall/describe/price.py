"""What a GPU-hour costs, where and when.

Holds `PriceList` (one seller) and `Offer` (one price of one day).
"""

from typing import Literal

from pydantic import Field

from syncwall.describe.base import CatalogueEntry, Description, Positive, UsdPerGpuHour


class Offer(Description):
    """One published price."""

    device: str
    """Name of the accelerator in the catalogue."""
    price_usd_per_gpu_hour: UsdPerGpuHour = Field(alias="price")
    """Whole node divided by its GPUs, without tax, storage and traffic out."""
    terms: Literal["on-demand", "spot", "reserved"]
    date: str
    """Day on which the price was published (ISO date)."""
    instance: str | None = None
    """The seller's name for the machine."""
    gpus: Positive | None = None
    """GPUs of that machine."""
    cluster: str | None = None
    """Name of the machine in the catalogue."""
    region: str | None = None
    """Where it is that cheap, if the price differs by region."""


class PriceList(CatalogueEntry):
    """Prices of one seller."""

    offers: tuple[Offer, ...]
