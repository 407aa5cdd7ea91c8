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
    from syncwall import watch as watch
    from syncwall.answer.gap import Gap as Gap
    from syncwall.answer.gap import gap as gap
    from syncwall.answer.improvements import Improvement as Improvement
    from syncwall.answer.improvements import improvements as improvements
    from syncwall.answer.islands import IslandsPrediction as IslandsPrediction
    from syncwall.answer.islands import predict_islands as predict_islands
    from syncwall.answer.known import site_of as site_of
    from syncwall.answer.prediction import Prediction as Prediction
    from syncwall.answer.prediction import predict as predict
    from syncwall.answer.rl_step import RlPrediction as RlPrediction
    from syncwall.answer.rl_step import predict_rl as predict_rl
    from syncwall.answer.site import Site as Site
    from syncwall.answer.sweep import sweep as sweep
    from syncwall.answer.timeline import Timeline as Timeline
    from syncwall.capture.program_file import write_program as write_program
    from syncwall.capture.step_function import capture as capture
    from syncwall.capture.step_function import capturing as capturing
    from syncwall.cause import Cause as Cause
    from syncwall.cost.calibration import Calibration as Calibration
    from syncwall.cost.communication import Network as Network
    from syncwall.cost.measured import MachineMeasurements as MachineMeasurements
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
    from syncwall.describe.lookup import clusters as clusters
    from syncwall.describe.lookup import device as device
    from syncwall.describe.lookup import devices as devices
    from syncwall.describe.lookup import link as link
    from syncwall.describe.lookup import model as model
    from syncwall.describe.lookup import models as models
    from syncwall.describe.lookup import prices as prices
    from syncwall.describe.lookup import run as run
    from syncwall.describe.rl_and_islands import Islands as Islands
    from syncwall.describe.rl_and_islands import RlStep as RlStep
    from syncwall.explain.answer import Explanation as Explanation
    from syncwall.explain.question import explain as explain
    from syncwall.job.completion import Completion as Completion
    from syncwall.job.completion import finish as finish
    from syncwall.job.job_comparison import Comparison as Comparison
    from syncwall.job.job_comparison import compare as compare
    from syncwall.plan.fabric.fabric_answer import FabricAnswer as FabricAnswer
    from syncwall.plan.network.needed import NetworkPlan as NetworkPlan
    from syncwall.plan.placement.best_placement import PlacementAnswer as PlacementAnswer
    from syncwall.plan.search import SearchResult as SearchResult
    from syncwall.plan.wall.sync_wall import WallPlan as WallPlan
    from syncwall.problems import InputError as InputError
    from syncwall.read.machine_measured import read_machine_measured as read_machine_measured
    from syncwall.read.recorded_program import read_program as read_program
    from syncwall.timeline.ledger import Ledger as Ledger
    from syncwall.validate.accuracy_report import Report as Report
    from syncwall.validate.accuracy_report import validate as validate
    from syncwall.work.program import Program as Program

__version__ = "0.2.0"

_HOME = {
    "syncwall.answer.gap": "Gap gap",
    "syncwall.answer.improvements": "Improvement improvements",
    "syncwall.answer.islands": "IslandsPrediction predict_islands",
    "syncwall.answer.known": "site_of",
    "syncwall.answer.prediction": "Prediction predict",
    "syncwall.answer.rl_step": "RlPrediction predict_rl",
    "syncwall.answer.site": "Site",
    "syncwall.answer.sweep": "sweep",
    "syncwall.answer.timeline": "Timeline",
    "syncwall.capture.program_file": "write_program",
    "syncwall.capture.step_function": "capturing",
    "syncwall.cause": "Cause",
    "syncwall.cost.calibration": "Calibration",
    "syncwall.cost.communication": "Network",
    "syncwall.cost.measured": "MachineMeasurements",
    "syncwall.describe": (
        "Attention Checkpoints Cluster Device Fabric Failures Job Layout Link Mlp Model Moe "
        "Nics Node Run ScaleUp Software Tier"
    ),
    "syncwall.describe.lookup": "cluster clusters device devices link model models prices run",
    "syncwall.describe.rl_and_islands": "Islands RlStep",
    "syncwall.explain.answer": "Explanation",
    "syncwall.job.job_comparison": "Comparison compare",
    "syncwall.job.completion": "Completion finish",
    "syncwall.plan.fabric.fabric_answer": "FabricAnswer",
    "syncwall.plan.network.needed": "NetworkPlan",
    "syncwall.plan.placement.best_placement": "PlacementAnswer",
    "syncwall.plan.search": "SearchResult",
    "syncwall.plan.wall.sync_wall": "WallPlan",
    "syncwall.problems": "InputError",
    "syncwall.read.machine_measured": "read_machine_measured",
    "syncwall.read.recorded_program": "read_program",
    "syncwall.timeline.ledger": "Ledger",
    "syncwall.validate.accuracy_report": "Report",
    "syncwall.work.program": "Program",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

_MODULES = ("capture", "explain", "plan", "validate", "watch")
"""Packages; `capture`, `explain` and `validate` are called like functions."""

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
