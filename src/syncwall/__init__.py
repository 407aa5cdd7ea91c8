"""syncwall: how fast a training run on many GPUs will be, where the time goes, what to change.

    >>> import syncwall as sw
    >>> sw.model("llama-3.1-405b").parameters
    405853388800
    >>> sw.cluster("dgx-h100", nodes=32).gpus
    256

The names below are the whole public interface; they are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncwall import plan as plan
    from syncwall.answer import Prediction as Prediction
    from syncwall.answer import predict as predict
    from syncwall.describe import Attention as Attention
    from syncwall.describe import Checkpoints as Checkpoints
    from syncwall.describe import Cluster as Cluster
    from syncwall.describe import Device as Device
    from syncwall.describe import Fabric as Fabric
    from syncwall.describe import Failures as Failures
    from syncwall.describe import Job as Job
    from syncwall.describe import Layout as Layout
    from syncwall.describe import Link as Link
    from syncwall.describe import Mlp as Mlp
    from syncwall.describe import Model as Model
    from syncwall.describe import Moe as Moe
    from syncwall.describe import Nics as Nics
    from syncwall.describe import Node as Node
    from syncwall.describe import Run as Run
    from syncwall.describe import ScaleUp as ScaleUp
    from syncwall.describe import Software as Software
    from syncwall.describe import Tier as Tier
    from syncwall.describe.lookup import cluster as cluster
    from syncwall.describe.lookup import device as device
    from syncwall.describe.lookup import link as link
    from syncwall.describe.lookup import model as model
    from syncwall.describe.lookup import prices as prices
    from syncwall.describe.lookup import run as run
    from syncwall.job.completion import finish as finish
    from syncwall.problems import InputError as InputError

__version__ = "0.1.0"

_HOME = {
    "syncwall.answer": "Prediction predict",
    "syncwall.describe": (
        "Attention Checkpoints Cluster Device Fabric Failures Job Layout Link Mlp Model Moe Nics "
        "Node Run ScaleUp Software Tier"
    ),
    "syncwall.describe.lookup": "cluster device link model prices run",
    "syncwall.job.completion": "finish",
    "syncwall.problems": "InputError",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

_MODULES = ("plan",)

__all__ = [*sorted([*_MODULE_OF, *_MODULES]), "__version__"]  # noqa: PLE0604 - names, made above


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"syncwall.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'syncwall' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
