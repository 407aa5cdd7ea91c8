"""The closed loop: measure device and collectives, predict each step, then run it.

Holds `calibration_jobs`, `Forecast` and `forecast_of`, which turns a step job on a topology into a
run and predicts it from what was measured there.
"""

from collections.abc import Sequence

import numpy as np

from syncwall.answer import predict
from syncwall.cause import Cause
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Device, Nics, Node, Run
from syncwall.describe.base import Description
from syncwall.describe.choice import Dtype
from syncwall.describe.device import DeviceMemory
from syncwall.describe.lookup import model as named
from syncwall.lab.experiment import LabJob
from syncwall.lab.virtual_network import Topology
from syncwall.measure.node import CPU, step_run
from syncwall.measure.training_step import DEFAULT_MODEL, StepSettings
from syncwall.problems import InputError
from syncwall.units import Dimension, parse

_KINDS = "all-reduce,all-gather,reduce-scatter"
_SMALLEST = "16KiB"


class Forecast(Description):
    """A predicted step."""

    step_s: float
    ledger_s: dict[Cause, float]


def step_settings(job: LabJob) -> StepSettings:
    """What a step job runs, its flags read as the command line reads them."""
    flags = {name.replace("-", "_"): value for name, value in job.flags.items()}
    model = named(str(flags.pop("model", DEFAULT_MODEL)))
    bucket = flags.pop("bucket", None)
    if bucket is not None:
        flags["bucket_bytes"] = parse(str(bucket), Dimension.BYTES)
    known = {name: value for name, value in flags.items() if name in StepSettings.model_fields}
    return StepSettings.model_validate(known | {"model": model})


def step_label(job: LabJob) -> str:
    """Model and sharing of a step job, such as "tiny-5m ddp"."""
    return f"{job.flags.get('model', DEFAULT_MODEL)} {job.flags.get('shard', 'ddp')}"


def calibration_jobs(jobs: Sequence[LabJob]) -> list[LabJob]:
    """Measurements that the step jobs need to be predicted: their kernels, and collectives."""
    steps = [step_settings(job) for job in jobs if job.measure == "step"]
    if not steps:
        raise InputError.of("--predict compares steps: the experiment has no job `measure: step`")
    shapes = {(one.seq, one.micro_batch, one.precision) for one in steps}
    if len(shapes) > 1:
        raise InputError.of("--predict needs the same seq, micro_batch and precision in all steps")
    seq, micro_batch, precision = shapes.pop()
    names = dict.fromkeys(str(job.flags.get("model", DEFAULT_MODEL)) for job in jobs)
    largest = 4.0 * max(_largest_message(one) for one in steps)
    flags = {
        "model": tuple(names),
        "seq": seq,
        "micro_batch": micro_batch,
        "precision": precision,
    }
    sizes = {"min_size": _SMALLEST, "max_size": f"{int(largest)}B"}
    return [
        LabJob(measure="matmul", flags=flags),
        LabJob(measure="collectives", flags={"kinds": _KINDS, **sizes, "seconds": 1.0}),
    ]


def _largest_message(settings: StepSettings) -> float:
    """Elements in the largest collective of a step."""
    parameters = settings.model.parameter_count
    if settings.shard == "fsdp":
        return float(max(parameters.embedding, parameters.total / settings.model.layers))
    return min(settings.bucket_bytes / 4.0, float(parameters.total))


def forecast_of(job: LabJob, topology: Topology, measured: MachineMeasurements) -> Forecast:
    """The step of `job` on `topology`, predicted from what was measured there."""
    answer = predict(run_of(step_settings(job), topology, measured), measured=measured)
    ledger = {cause: float(seconds) for cause, seconds in answer.ledger.items()}
    return Forecast(step_s=answer.step_s, ledger_s=ledger)


def run_of(settings: StepSettings, topology: Topology, measured: MachineMeasurements) -> Run:
    """The run that a step job is."""
    nics = Nics(
        count=topology.nics,
        rate_bytes_per_s=topology.rate_bytes_per_s,
        serves=topology.serves,
        transport="gloo",
    )
    node = Node(device=device_of(measured), gpus=topology.workers, nics=nics)
    return step_run(settings, Cluster(name="lab", node=node, nodes=topology.hosts))


def device_of(measured: MachineMeasurements) -> Device:
    """One worker's share of the machine, as a device: the best rates that were measured."""
    flops = [2.0 * p.m * p.n * p.k / p.seconds for p in measured.gemm]
    rates = [p.bytes / p.seconds for p in measured.elementwise]
    if not flops or not rates:
        raise InputError.of("no kernels were measured: run `measure matmul` first")
    peak = float(np.max(flops))
    return Device(
        name=CPU,
        vendor="generic",
        architecture="cpu",
        peak_flop_per_s={Dtype.FP32: peak, Dtype.BF16: peak},
        memory=DeviceMemory(size_bytes=1e15, rate_bytes_per_s=float(np.max(rates))),
        multiprocessors=1,
    )
