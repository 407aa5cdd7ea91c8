"""What of a prediction other packages than syncwall decide.

Holds `PluggedPart` and `plugged_parts`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from syncwall import catalogue, plugins
from syncwall.answer.prediction import Prediction
from syncwall.catalogue import CatalogueKind
from syncwall.cost.algorithm_choices import algorithm_choices
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.nccl import algorithms


@dataclass(frozen=True, slots=True)
class PluggedPart:
    """One part of a prediction."""

    what: str
    """As in "all-reduce of dp"."""
    by: str
    """Name of the entry."""
    package: str
    """Name and version of the package that adds it."""
    formula: str = ""
    """Of an algorithm, as its author states it."""


def plugged_parts(prediction: Prediction) -> list[PluggedPart]:
    """Every part that a plug-in decides, once."""
    found = (*_entries(prediction), *_network(prediction), *_collectives(prediction))
    return list(dict.fromkeys(found))


def _entries(prediction: Prediction) -> Iterator[PluggedPart]:
    """Catalogue entries from folders of packages."""
    run = prediction.run
    used = {
        CatalogueKind.MODEL: run.model.name,
        CatalogueKind.CLUSTER: run.cluster.name,
        CatalogueKind.DEVICE: run.cluster.device.name,
        CatalogueKind.FRAMEWORK: prediction.prices.setting.framework.name,
    }
    for plugin in plugins.added("catalogue"):
        for kind, name in used.items():
            file = plugin.entry and plugin.entry / kind.folder / f"{name}.yaml"
            if file and file == catalogue.paths(kind).get(str(name)):
                yield PluggedPart(str(kind), str(name), plugin.package)


def _network(prediction: Prediction) -> Iterator[PluggedPart]:
    plugin = plugins.owner("networks", prediction.pricing.network)
    if plugin is not None:
        yield PluggedPart("communication", plugin.name, plugin.package)


def _collectives(prediction: Prediction) -> Iterator[PluggedPart]:
    """Collectives for which an algorithm of a package is the fastest."""
    algorithms()
    known = {one.name: one for one in plugins.added("collectives") if not one.problem}
    if not known or prediction.pricing.network is not NcclNetwork:
        return
    cluster = prediction.cluster
    network = NcclNetwork(cluster, prediction.calibration.network)
    for stage in prediction.work.stages:
        for _, what, _ in stage.collectives(prediction.work.microbatches):
            size = float(what.bytes) / float(what.calls)
            found = algorithm_choices(network, cluster, what.kind, size, what.group)
            plugin = known.get(found[0].algorithm) if found else None
            if plugin is not None:
                about, formula = f"{what.kind} of {what.axis}", plugin.entry.formula
                yield PluggedPart(about, plugin.name, plugin.package, formula)
