"""What the form of a run offers.

Holds `options`.
"""

from functools import cache
from typing import Any

from syncwall import catalogue
from syncwall.catalogue import Kind
from syncwall.describe import lookup
from syncwall.describe.choice import Dtype


@cache
def options() -> dict[str, Any]:
    """Models, clusters and frameworks of the catalogue, and what a field may be."""
    models = [lookup.model(name) for name in catalogue.names(Kind.MODEL)]
    clusters = [lookup.cluster(name) for name in catalogue.names(Kind.CLUSTER)]
    frameworks = [lookup.framework(name) for name in catalogue.names(Kind.FRAMEWORK)]
    return {
        "models": [
            {
                "name": one.name,
                "title": one.title,
                "parameters": one.parameters,
                "active": one.parameter_count.active,
                "train_seq": one.train_seq,
            }
            for one in models
        ],
        "clusters": [
            {
                "name": one.name,
                "title": one.title,
                "device": one.device.name,
                "gpus_per_node": one.gpus_per_node,
                "built_nodes": one.built_nodes,
            }
            for one in clusters
        ],
        "frameworks": [{"name": one.name, "title": one.title} for one in frameworks],
        "precisions": [str(dtype) for dtype in Dtype],
    }
