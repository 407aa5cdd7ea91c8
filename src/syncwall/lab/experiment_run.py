"""An experiment, run: every topology is made, every job run on it, and all removed.

Holds `LabRecord`, `run_topology`, `run_experiment` and `result_of`. `LinkRate` and `link_rate`:
what iperf3 gets out of a link of a lab.
"""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.base import Description
from syncwall.hosts import host_name
from syncwall.lab.closed_loop import calibration_jobs, forecast_of
from syncwall.lab.experiment import Experiment, LabJob
from syncwall.lab.host_machine import awake, inside, log_folder
from syncwall.lab.virtual_hosts import Hosts, lab
from syncwall.lab.virtual_network import Topology
from syncwall.lab.worker_processes import JobExit
from syncwall.measure.calibrate import joined_calibrations, measured_of
from syncwall.measure.result import JobFacts, MachineLoad, Meter, Result, this_host, watched
from syncwall.problems import InputError


class LinkRate(Description):
    """Payload between two hosts, as the receivers count it."""

    forward_bytes_per_s: float
    """From client to server."""
    backward_bytes_per_s: float | None = None
    """The other way at the same time; None if that was not asked for."""
    seconds: float


def link_rate(
    hosts: Hosts, client: int = 0, server: int = 1, *, seconds: int = 2, both_ways: bool = False
) -> LinkRate:
    """The rate of one TCP stream between two hosts of a lab, or of one each way."""
    iperf3 = shutil.which("iperf3")
    if iperf3 is None:
        raise InputError.of("`iperf3` is not installed: apt-get install iperf3")
    target = hosts.address(server)
    command = [iperf3, "-c", target, "-J", "-t", str(seconds), "-O", "1", "-i", "1"]
    command += ["--bidir"] if both_ways else []
    sender, receiver = hosts.network.hosts[client], hosts.network.hosts[server]
    with contextlib.ExitStack() as stack:
        if hosts.keep_awake:
            stack.enter_context(awake(receiver))
        stack.enter_context(_server(receiver, iperf3))
        for _ in range(20):  # the server takes a moment to listen
            done = subprocess.run(  # noqa: S603 - our own command
                inside(sender, command),
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds + 20,
            )
            if "refused" not in done.stdout:
                break
            time.sleep(0.05)
    return _read(done.stdout, seconds)


def _read(text: str, seconds: float) -> LinkRate:
    try:
        end = json.loads(text)["end"]
        forward = float(end["sum_received"]["bits_per_second"]) / 8
        back = end.get("sum_received_bidir_reverse")
    except (ValueError, KeyError):
        raise InputError.of(f"iperf3 printed: {text.strip()[-300:] or 'nothing'}") from None
    backward = float(back["bits_per_second"]) / 8 if back else None
    return LinkRate(forward_bytes_per_s=forward, backward_bytes_per_s=backward, seconds=seconds)


@contextlib.contextmanager
def _server(namespace: str, iperf3: str) -> Iterator[None]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        inside(namespace, [iperf3, "-s", "-1"]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


Progress = Callable[[str], None]


class LabRecord(Description):
    """One job on one topology."""

    topology: Topology
    job: LabJob
    round: int = 0
    seconds: float
    """From the start of the workers to the end of the last."""
    message: str | None = None
    """Why it failed; None if it did not."""
    ended_first: tuple[str, ...] = ()
    output: str = ""
    """What rank 0 printed, shortened."""
    result: Result | None = None
    """What was measured; None for a program that does not measure, or that failed."""
    link: LinkRate | None = None
    """What iperf3 found between the first host and the last, if that was asked for."""
    predicted: dict[str, Any] | None = None
    load: MachineLoad | None = None
    """What else the machine did; None where that is not known."""

    @property
    def ok(self) -> bool:
        """True if the job ended well."""
        return self.message is None


def run_experiment(
    experiment: Experiment,
    *,
    only: Sequence[str] = (),
    predict: bool = False,
    logs: Path | None = None,
    progress: Progress = lambda text: None,
) -> Generator[LabRecord, None, None]:
    """The records of an experiment, one after the other; `only` keeps some of its places.

    With `predict`, each topology is measured first, and its steps are predicted from that.
    """
    topologies = [one for one in experiment.topologies() if not only or one.place in only]
    if not topologies:
        places = dict.fromkeys(one.place for one in experiment.topologies())
        raise InputError.of(f"no place is {', '.join(only)}; there are {', '.join(places)}")
    for number in range(experiment.repeats):
        for topology in topologies:
            yield from run_topology(
                experiment, topology, number, predict=predict, logs=logs, progress=progress
            )


def run_topology(
    experiment: Experiment,
    topology: Topology,
    number: int = 0,
    *,
    predict: bool = False,
    logs: Path | None = None,
    progress: Progress = lambda text: None,
) -> Generator[LabRecord, None, None]:
    """Make `topology`, run every job of the experiment, remove all; records as they come."""
    progress(f"{topology.label}: making hosts")
    with contextlib.ExitStack() as stack:
        if logs is None:
            logs = Path(stack.enter_context(log_folder()))
        folder = logs / f"{topology.label.replace(' ', '-').replace('/', 'p')}-{number}"
        hosts = stack.enter_context(lab(topology, experiment.name, logs=folder, keep_awake=experiment.awake))
        link = None
        if experiment.check_links and topology.hosts > 1:
            progress(f"{topology.label}: iperf3")
            link = link_rate(hosts, 0, topology.hosts - 1, both_ways=True)
        measured = MachineMeasurements()
        for job in calibration_jobs(experiment.jobs) if predict else ():
            progress(f"{topology.label}: {job.label}")
            record = _record(experiment, hosts, job, number)
            measured = joined_calibrations(
                [measured, *([measured_of(record.result)] if record.result else [])]
            )
            yield record.model_copy(update={"link": link})
        for job in experiment.jobs:
            predicted = _forecast(job, topology, measured)  # before it runs
            progress(f"{topology.label}: {job.label}")
            record = _record(experiment, hosts, job, number)
            yield record.model_copy(update={"link": link, "predicted": predicted})


def _forecast(job: LabJob, topology: Topology, measured: MachineMeasurements) -> dict[str, Any] | None:
    """The predicted step; None for other jobs, and where nothing was measured to predict from."""
    if job.measure != "step" or not (measured.gemm and measured.collectives):
        return None
    return forecast_of(job, topology, measured).model_dump()


def result_of(experiment: Experiment, records: Sequence[LabRecord], *, complete: bool) -> Result:
    """One result for all records."""
    return Result(
        kind="lab",
        complete=complete,
        job=JobFacts(backend="lab", device="cpu", hosts=(host_name(),)),
        hosts=(this_host(),),
        data={
            "experiment": experiment.model_dump(mode="json"),
            "records": [record.model_dump(mode="json") for record in records],
        },
    )


def _record(experiment: Experiment, hosts: Hosts, job: LabJob, number: int) -> LabRecord:
    output = hosts.directory / "result.json"
    output.unlink(missing_ok=True)
    before, meter = watched(), Meter()
    outcome = hosts.run(
        job.words(output),
        time_limit_s=job.time_limit_s,
        threads=experiment.threads,
        environment=job.environment,
        faults=experiment.faults,
    )
    result, message = _result(output, outcome, job)
    return LabRecord(
        topology=hosts.topology,
        job=job,
        round=number,
        seconds=outcome.seconds,
        message=message,
        ended_first=outcome.ended_first,
        output=outcome.outputs[0],
        result=result,
        load=MachineLoad.of([before], [meter.spent()]),
    )


def _result(output: Path, outcome: JobExit, job: LabJob) -> tuple[Result | None, str | None]:
    """What was measured, and what is wrong."""
    if job.measure is None:
        return None, outcome.message
    if not output.exists():
        return None, outcome.message or f"measure {job.measure} has written no result"
    try:
        result = Result.read(output)
    except InputError as error:
        return None, outcome.message or str(error)
    said_no = set(outcome.codes) <= {0, 1}  # such as `links` that names a host: also an answer
    return result, None if result.complete and said_no else outcome.message
