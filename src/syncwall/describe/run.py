"""A training run: a model on a cluster in a layout, checked against each other.

Holds `Run`. A run is complete: what the user left open (replicas, batch, sequence length) is filled
in or refused, so nothing after it has to guess.
"""

from typing import Annotated, Self

from pydantic import model_validator

from syncwall.catalogue import Kind
from syncwall.describe.base import Description, Positive, faults
from syncwall.describe.cluster import Cluster
from syncwall.describe.layout import Layout
from syncwall.describe.model import Model
from syncwall.describe.names import Ref
from syncwall.describe.rules import broken_rules
from syncwall.describe.software import Software

ModelRef = Annotated[Model, Ref(Kind.MODEL)]
ClusterRef = Annotated[Cluster, Ref(Kind.CLUSTER)]


class Run(Description):
    """One training run."""

    model: ModelRef
    """By catalogue name, path (YAML, Hugging Face config.json or its directory), or in place."""
    cluster: ClusterRef
    """By catalogue name, path, or in place."""
    nodes: Positive = 1
    """Nodes used; those of the cluster if not given."""
    gpus_per_node: Positive = 1
    """GPUs used in each node; those of the cluster if not given."""
    layout: Layout = Layout()
    software: Software = Software()
    seq: Positive = 1
    """Tokens in a sequence; the length that the model was trained with if not given."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = self.model_fields_set
        cluster = self.cluster.using(
            self.nodes if "nodes" in given else None,
            self.gpus_per_node if "gpus_per_node" in given else None,
        )
        seq = self.seq if "seq" in given else self.model.train_seq
        if seq is None:
            raise ValueError(f'"seq" is missing: no training length is known for {self.model.name}')
        layout = self.layout.resolved(cluster.gpus)
        broken = broken_rules(self.model, layout, seq, cluster.gpus)
        if broken:
            raise faults([(("layout", field), reason) for field, reason in broken])
        for name, value in (
            ("cluster", cluster),
            ("nodes", cluster.nodes),
            ("gpus_per_node", cluster.gpus_per_node),
            ("layout", layout),
            ("seq", seq),
        ):
            object.__setattr__(self, name, value)
        return self

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return self.cluster.gpus

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        return int(self.layout.global_batch or 0) * self.seq
