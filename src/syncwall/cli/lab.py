"""`syncwall lab`: real experiments on several hosts made on one Linux machine.

Holds `Up`, `Run`, `Down` and `List`, the parts of the verb.
"""

import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, TextIO

from syncwall.ask.question import Argument, LocalFile, LocalFolder
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError, did_you_mean, visible

if TYPE_CHECKING:
    from syncwall.lab.experiment_run import LabRecord
    from syncwall.lab.virtual_network import Topology


class LabUpCommand(Command):
    """Make the hosts and links of an experiment; needs root."""

    file: Annotated[LocalFile, Argument("FILE", positional=True)]
    """The experiment (YAML)."""
    place: Annotated[str | None, Argument("HxW")] = None
    """Hosts x workers on each, such as 2x2; the first of the experiment if left out."""
    rate: Annotated[str | None, Argument("RATE")] = None
    """Rate of a link, such as 100Mb/s; the first of the experiment if left out."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.lab import host_machine
        from syncwall.lab.experiment import read_experiment
        from syncwall.lab.virtual_network import adapter_address

        experiment = read_experiment(self.file)
        topology = _topology(experiment.topologies(), self.place, self.rate)
        made = host_machine.up(topology, host_machine.new_name(experiment.name))
        print(f"{made.lab}: {topology.label}\n")
        for host, namespace in enumerate(made.hosts):
            nics = range(topology.nics if topology.hosts > 1 else 0)
            addresses = ", ".join(f"eth{nic} {adapter_address(host, nic)}" for nic in nics) or "lo 127.0.0.1"
            print(f"  h{host}  {addresses}   ip netns exec {namespace} bash")
        print(f"\nremove it with: syncwall lab down {made.lab}")
        return 0


def _topology(topologies: "list[Topology]", place: str | None, rate: str | None) -> "Topology":
    from syncwall import units

    try:
        wanted = units.parse(rate, units.Dimension.BYTES_PER_S) if rate else None
    except ValueError as error:
        raise InputError.of(f"--rate: {error}") from None
    for topology in topologies:
        fits = wanted is None or topology.hosts == 1 or topology.rate_bytes_per_s == wanted
        if fits and place in (None, topology.place):
            return topology
    there = ", ".join(topology.label for topology in topologies)
    raise InputError.of(f"the experiment has no {place or 'place'} at that rate; it has {there}")


class LabRunCommand(Command):
    """Run an experiment for real: make its hosts, run its jobs, remove all; needs root.

    Exit code 0 if every job ended well, 1 if one failed or Ctrl-C ended the run.
    """

    file: Annotated[LocalFile, Argument("FILE", positional=True)]
    """The experiment (YAML)."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""
    only: Annotated[tuple[str, ...], Argument("HxW")] = ()
    """Only these places, such as 2x2."""
    predict: bool = False
    """First measure device and collectives in each lab, predict every step from that, and compare.
    """
    keep_logs: Annotated[LocalFolder | None, Argument("DIR", group="output")] = None
    """Keep what the workers print in this directory."""
    quiet: Annotated[bool, Argument(group="output")] = False
    """Do not repeat what rank 0 prints."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.cli.output import status
        from syncwall.lab.experiment import read_experiment
        from syncwall.lab.experiment_run import result_of, run_experiment
        from syncwall.records import plain
        from syncwall.show.lab import lab_view

        self.out.check()
        experiment = read_experiment(self.file)
        records: list[LabRecord] = []
        complete = False
        try:
            with (
                status("lab") as progress,
                closing(
                    run_experiment(
                        experiment,
                        only=self.only,
                        predict=self.predict,
                        logs=self.keep_logs,
                        progress=progress,
                    )
                ) as found,
            ):
                for record in found:
                    records.append(record)
                    _print(record, sys.stderr if self.out.prints_json else sys.stdout, quiet=self.quiet)
            complete = True
        except KeyboardInterrupt:
            print("interrupted; the hosts are removed", file=sys.stderr)
        result = result_of(experiment, records, complete=complete)
        self.out.write_data("lab run", partial(lab_view, result), partial(plain, result))
        return 0 if complete and all(record.ok for record in records) else 1


def _print(record: "LabRecord", stream: TextIO, *, quiet: bool) -> None:
    """What happened, while the others still run."""
    faults = "" if record.ok else f": FAILED, {record.message}"
    lines = [f"== {record.topology.label}, {record.job.label} ({record.seconds:.1f} s){faults}"]
    if record.link is not None:
        back = record.link.backward_bytes_per_s or 0.0
        forward = record.link.forward_bytes_per_s
        lines.append(f"   iperf3, both ways at once: {forward * 8e-6:.0f} and {back * 8e-6:.0f} Mb/s")
    if record.output and not quiet:
        lines.append(record.output.rstrip())
    print(visible("\n".join(lines)), file=stream, flush=True)


class LabDownCommand(Command):
    """Remove a lab and end all that runs inside; needs root."""

    name: Annotated[str | None, Argument("NAME", positional=True)] = None
    """Its name, as `lab up` and `lab list` print it; may be left out if there is only one."""
    all: bool = False
    """Every lab of this machine, also what a killed run has left."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.lab import host_machine

        host_machine.needed("down")
        there = [lab.name for lab in host_machine.labs()]
        name = None if self.all else self.name
        if name is None and not self.all:
            if len(there) > 1:
                raise InputError.of(f"which one? {', '.join(there)}; or --all")
            name = there[0] if there else ""  # then only folders of killed runs are removed
        elif name is not None and name not in there:
            known = did_you_mean(name, there) or f"; there are {', '.join(there) or 'none'}"
            raise InputError.of(f'no lab is called "{name}"{known}')
        gone = host_machine.down(name)
        print("\n".join(f"removed {lab}" for lab in gone) or "there was nothing to remove")
        return 0


class LabListCommand(Command):
    """Show the labs of this machine."""

    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.lab.host_machine import labs
        from syncwall.show.lab import labs_view

        self.out.check()
        found = labs()
        self.out.write_data("lab list", lambda: labs_view(found), lambda: {"labs": found})
        return 0
