"""Descriptions by name or path, as functions.

Holds `device`, `link`, `model`, `cluster`, `framework`, `switch`, `failure_rates`, `price_list` and
`prices`, which take a catalogue name or a path, `READERS`, the same by kind, and `run`, which takes
a path.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncwall import catalogue
from syncwall.catalogue import Kind
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
    return load(Kind.DEVICE, Device, name)


def link(name: str) -> Link:
    """The link called `name`, or described in the file `name`."""
    return load(Kind.LINK, Link, name)


def model(name: str) -> Model:
    """The model called `name`, or in the file or directory `name` (YAML or config.json)."""
    return load(Kind.MODEL, Model, name)


def cluster(name: str, nodes: int | None = None, gpus_per_node: int | None = None) -> Cluster:
    """The machine called `name`, or described in the file `name`, with so much of it in use."""
    return load(Kind.CLUSTER, Cluster, name).using(nodes, gpus_per_node)


def framework(name: str) -> Framework:
    """The training software called `name`, or described in the file `name`."""
    return load(Kind.FRAMEWORK, Framework, name)


def switch(name: str) -> Switch:
    """The switch called `name`, or described in the file `name`."""
    return load(Kind.SWITCH, Switch, name)


def failure_rates(study: str) -> FailureRates:
    """How often things failed in `study`, or as the file `study` says."""
    return load(Kind.FAILURE, FailureRates, study)


def price_list(seller: str) -> PriceList:
    """Prices of `seller`, or of the file `seller`."""
    return load(Kind.PRICE, PriceList, seller)


def prices() -> list[PriceList]:
    """Prices of every seller in the catalogue."""
    return [price_list(seller) for seller in catalogue.names(Kind.PRICE)]


READERS: Final[dict[Kind, Callable[[str], Description]]] = {
    Kind.DEVICE: device,
    Kind.LINK: link,
    Kind.CLUSTER: cluster,
    Kind.MODEL: model,
    Kind.SWITCH: switch,
    Kind.FRAMEWORK: framework,
    Kind.FAILURE: failure_rates,
    Kind.PRICE: price_list,
}
"""How an entry of each kind is found."""


def run(path: str | Path) -> Run:
    """The run described in the file at `path`."""
    return read(Path(path), Run)
