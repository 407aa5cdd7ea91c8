"""One node, measured: its kernels, its collectives and a real step, as one site file.

Holds `step_run`, the run that a measured step is, and `site_file`.
"""

from collections.abc import Sequence
from typing import Final

from syncwall.answer.known import SiteFile
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Layout, Nics, Node, Run, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Recompute, Shard
from syncwall.describe.lookup import cluster as named_cluster
from syncwall.describe.lookup import device as named_device
from syncwall.describe.run import KnownRun, MeasuredSpeed
from syncwall.measure.training_step import StepData, StepSettings
from syncwall.problems import InputError

CPU: Final = "cpu-laptop"
"""The device of the catalogue that stands for a processor; measurements correct its numbers."""

_LOOPBACK_BYTES_PER_S: Final = 1.25e9
"""Between processes of one host, where collectives of another size than measured are asked for."""


def step_run(settings: StepSettings, cluster: Cluster) -> Run:
    """The run that `measure step` is on `cluster`."""
    layout = Layout(
        shard=Shard.FSDP if settings.shard == "fsdp" else Shard.DDP,
        micro_batch=settings.micro_batch,
        precision=Dtype(settings.precision),
        gradient_dtype=Dtype.FP32,
        bucket_bytes=settings.bucket_bytes,
        recompute=Recompute.NONE,
    )
    on_cpu = cluster.device.name == CPU
    software = Software(framework="pytorch-cpu") if on_cpu else Software(framework="pytorch", kernels="eager")
    return Run(model=settings.model, cluster=cluster, layout=layout, software=software, seq=settings.seq)


def node_of(name: str | None, hosts: Sequence[str], *, on_cpu: bool) -> Cluster:
    """One node of the cluster with this `name`, as far as ranks on `hosts` use it.

    Processors need no name: every rank is one.
    """
    ranks = len(hosts)
    if len(set(hosts)) > 1:
        raise InputError.of(
            f"these ranks are on {len(set(hosts))} hosts, and one is measured: start it on one, "
            "torchrun --standalone --nproc-per-node 8 -m syncwall measure node"
        )
    if name is None and on_cpu:
        nics = Nics(count=1, rate_bytes_per_s=_LOOPBACK_BYTES_PER_S, transport="gloo")
        node = Node(device=named_device(CPU), gpus=ranks, nics=nics)
        return Cluster(name="this-node", node=node, nodes=1)
    if name is None:
        raise InputError.of("missing --cluster: the machine that this node is of; try dgx-h100")
    cluster = named_cluster(name)
    if on_cpu != (cluster.device.name == CPU):
        here = "no GPU" if on_cpu else "GPUs"
        raise InputError.of(f"--cluster: {name} has {cluster.device.name}, and this node has {here}")
    if ranks > cluster.gpus_per_node:
        raise InputError.of(
            f"--cluster: a node of {name} has {cluster.gpus_per_node} GPUs, and here are {ranks} ranks"
        )
    return cluster.using(1, ranks)


def site_file(
    settings: StepSettings, cluster: Cluster, step: StepData, measured: MachineMeasurements
) -> SiteFile:
    """What was measured on one node of `cluster`."""
    run = step_run(settings, cluster)
    speed = MeasuredSpeed(step_s=step.times.median_s)
    known = KnownRun.model_validate({**{name: getattr(run, name) for name in _STATED}, "measured": speed})
    return SiteFile(known_runs=(known,), calibration=measured)


_STATED: Final = ("model", "cluster", "layout", "software", "seq")
