"""Descriptions by name or path, as functions.

Holds `device`, `link`, `model`, `cluster`, `framework`, `switch`, `failure_rates`, `price_list` and
`prices`, which take a catalogue name or a path, `READERS`, the same by kind, `devices`, `clusters`
and `models`, which list the names, and `run`, which takes a path.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncwall.catalogue import CatalogueKind, Folders, names, takes_catalogue, titles
from syncwall.describe.base import Description
from syncwall.describe.cluster import Cluster
from syncwall.describe.device import Device, Link, PriceList, Switch
from syncwall.describe.files import RunFile
from syncwall.describe.job import FailureRates
from syncwall.describe.model import Model
from syncwall.describe.names import load
from syncwall.describe.reading import validated
from syncwall.describe.run import Run
from syncwall.describe.software import Framework


@takes_catalogue
def device(name: str, *, catalogue: Folders = None) -> Device:
    """The accelerator called `name`, or described in the file `name`.

    Examples:
        >>> import syncwall as sw
        >>> sw.device("h100-sxm").memory.size_bytes
        85899345920.0
    """
    return load(CatalogueKind.DEVICE, Device, name)


@takes_catalogue
def link(name: str, *, catalogue: Folders = None) -> Link:
    """The link called `name`, or described in the file `name`.

    Examples:
        >>> import syncwall as sw
        >>> sw.link("nvlink-4").rate_bytes_per_s
        25000000000.0
    """
    return load(CatalogueKind.LINK, Link, name)


@takes_catalogue
def model(name: str, *, catalogue: Folders = None) -> Model:
    """The model called `name`, or in the file or directory `name` (YAML or config.json).

    Examples:
        >>> import syncwall as sw
        >>> sw.model("llama-3.1-405b").parameters
        405853388800
    """
    return load(CatalogueKind.MODEL, Model, name)


@takes_catalogue
def cluster(
    name: str,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    *,
    catalogue: Folders = None,
) -> Cluster:
    """The machine called `name`, or described in the file `name`, with so much of it in use.

    Examples:
        >>> import syncwall as sw
        >>> sw.cluster("dgx-h100", nodes=32).gpus
        256
    """
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


@takes_catalogue
def prices(*, catalogue: Folders = None) -> list[PriceList]:
    """Prices of every seller in the catalogue.

    Examples:
        >>> import syncwall as sw
        >>> {offer.device for seller in sw.prices() for offer in seller.offers} >= {"h100-sxm"}
        True
    """
    return [price_list(seller) for seller in names(CatalogueKind.PRICE)]


@takes_catalogue
def devices(*, catalogue: Folders = None) -> dict[str, str]:
    """Names of all accelerators, with their titles.

    Examples:
        >>> import syncwall as sw
        >>> sw.devices()["h100-sxm"]
        'NVIDIA H100 SXM5 80 GB'
    """
    return titles(CatalogueKind.DEVICE)


@takes_catalogue
def clusters(*, catalogue: Folders = None) -> dict[str, str]:
    """Names of all machines, with their titles.

    Examples:
        >>> import syncwall as sw
        >>> sw.clusters()["dgx-h100"]
        'NVIDIA DGX H100'
    """
    return titles(CatalogueKind.CLUSTER)


@takes_catalogue
def models(*, catalogue: Folders = None) -> dict[str, str]:
    """Names of all models, with their titles.

    Examples:
        >>> import syncwall as sw
        >>> [name for name in sw.models() if name.startswith("llama-3.1")]
        ['llama-3.1-405b', 'llama-3.1-70b', 'llama-3.1-8b']
    """
    return titles(CatalogueKind.MODEL)


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


@takes_catalogue
def run(path: str | Path, *, catalogue: Folders = None) -> Run:
    """The run described in the file at `path`.

    Examples:
        >>> import syncwall as sw
        >>> sw.run("examples/llama-70b-on-dgx-h100.yaml").gpus
        256
    """
    return validated(RunFile(Path(path)).run(), Run)
