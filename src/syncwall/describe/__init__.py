"""What the user says: the model, the machine, the layout, the run and the job.

Every type is frozen and validated; `lookup` finds them by name, `reading` reads them from files.
"""

from syncwall.describe.cluster import Cluster, Fabric, Nics, Node, ScaleUp, Tier
from syncwall.describe.device import (
    Device,
    DeviceLinks,
    DeviceMemory,
    Effective,
    Link,
    Offer,
    PriceList,
)
from syncwall.describe.job import Checkpoints, Failures, Job
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.model import Model
from syncwall.describe.run import Run
from syncwall.describe.software import Software
from syncwall.describe.transformer import Attention, Latent, Mlp, Moe, Norm

__all__ = [
    "Attention",
    "Checkpoints",
    "Cluster",
    "ContextKind",
    "Device",
    "DeviceLinks",
    "DeviceMemory",
    "Effective",
    "Fabric",
    "Failures",
    "Job",
    "Latent",
    "Layout",
    "Link",
    "Mlp",
    "Model",
    "Moe",
    "Nics",
    "Node",
    "Norm",
    "Offer",
    "PriceList",
    "Recompute",
    "Run",
    "ScaleUp",
    "Schedule",
    "Shard",
    "Software",
    "Tier",
]
