"""Descriptions by name or path, as functions.

Holds `device`, `link`, `model`, `cluster`, `framework`, `switch`, `failure_rates`, `price_list` and
`prices`, which take a catalogue name or a path, `READERS`, the same by kind, and `run`, which takes
a path.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import Description
from syncwall.describe.cluster import Cluster
from syncwall.describe.device import Device
from syncwall.describe.framework import Framework
from syncwall.describe.job import FailureRates
from syncwall.describe.link import Link, Switch
from syncwall.describe.model import Model
from syncwall.describe.names import load
from syncwall.describe.price import PriceList
from syncwall.describe.reading import read
from syncwall.describe.run import Run


def device(name: str) -> Device:
    """The accelerator called `name`, or described in the file `name`."""
    return load(CatalogueKind.DEVICE, Device, name)


def link(name: str) -> Link:
    """The link called `name`, or described in the file `name`."""
    return load(CatalogueKind.LINK, Link, name)


def model(name: str) -> Model:
    """The model called `name`, or in the file or directory `name` (YAML or config.json)."""
    return load(CatalogueKind.MODEL, Model, name)


def cluster(name: str, nodes: int | None = None, gpus_per_node: int | None = None) -> Cluster:
    """The machine called `name`, or described in the file `name`, with so much of it in use."""
    return load(CatalogueKind.CLUSTER, Cluster, name).using(nodes, gpus_per_node)


def framework(name: str) -> Framework:
    """The training software called `name`, or described in the file `name`."""
    return load(CatalogueKind.FRAMEWORK, Framework, name)


def switch(name: str) -> Switch:
    """The switch called `name`, or described in the file `name`."""
    return load(CatalogueKind.SWITCH, Switch, name)


def failure_rates(study: str) -> FailureRates:
    """How often things failed in `study`, or as the file `study` says."""
    return load(CatalogueKind.FAILURE, FailureRates, study)


def price_list(seller: str) -> PriceList:
    """Prices of `seller`, or of the file `seller`."""
    return load(CatalogueKind.PRICE, PriceList, seller)


def prices() -> list[PriceList]:
    """Prices of every seller in the catalogue."""
    return [price_list(seller) for seller in catalogue.names(CatalogueKind.PRICE)]


READERS: Final[dict[CatalogueKind, Callable[[str], Description]]] = {
    CatalogueKind.DEVICE: device,
    CatalogueKind.LINK: link,
    CatalogueKind.CLUSTER: cluster,
    CatalogueKind.MODEL: model,
    CatalogueKind.SWITCH: switch,
    CatalogueKind.FRAMEWORK: framework,
    CatalogueKind.FAILURE: failure_rates,
    CatalogueKind.PRICE: price_list,
}
"""How an entry of each kind is found."""


def run(path: str | Path) -> Run:
    """The run described in the file at `path`."""
    return read(Path(path), Run)
