"""`predict`: one training step, priced, placed in time, explained; or a whole job.

Holds `PredictQuestion`.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from syncwall.ask.question import Argument, LocalFile, Progress, QueuePairs, WorkQuestion, quiet
from syncwall.catalogue import catalogue_overlay
from syncwall.describe import Cluster, Job, Run
from syncwall.describe.no_effect import without_effect
from syncwall.describe.run import MeasuredSpeed
from syncwall.describe.software import usual_switches
from syncwall.describe.stated import stated_keys
from syncwall.network import Routing
from syncwall.problems import InputError, option
from syncwall.public import Answer

if TYPE_CHECKING:
    from syncwall.answer.prediction import Prediction
    from syncwall.cost.contended_network import SharedLinks
    from syncwall.job.completion import Completion

_SAMPLED = ("global_batch", "document")
"""Keys that the samples of a step of reinforcement learning state."""
Section = Literal["rl", "islands"]
_FIRST = 0.2
"""Share of the work that is the job itself; the rest are its changes."""
_SHARED_FROM = 20_000
"""Simulations from which on it pays to start a process on every core."""


class PredictQuestion(WorkQuestion):
    """Predict a training step: time, tokens/s/GPU, MFU, memory, and where the time goes.

    Exit code 1 if the run does not fit.
    """

    verb = "predict"
    working = "simulating jobs"

    tokens: Annotated[Any, Argument("TOKENS", group="job")] = None
    """Tokens to train on (15T): predict the whole job, from failures to the bill."""
    steps: Annotated[Any, Argument("N", group="job")] = None
    """Optimizer steps, as another way to say how long the job is."""
    samples: Annotated[Any, Argument("N", group="job")] = None
    """Sequences or images to train on (epochs x those of the data), as another way to say it."""
    measured: Annotated[Any, Argument("SPEED", group="job")] = None
    """How fast the run really is (5100tok/s/gpu, 9.1s, 1.2it/s, 296TFLOP/s/GPU, 38%mfu; the key of a
    run file): what would explain the gap, and how to tell."""
    job: Annotated[dict[str, Any], Argument(keys_of=Job, elsewhere=("run", "tokens", "steps"))] = Field(
        default_factory=dict
    )
    """The job, as in a job file: spares 8, checkpoints.interval 30min, failures.like NAME."""
    life: Annotated[LocalFile | None, Argument("FILE", group="job")] = None
    """What `syncwall watch --life FILE` wrote about this job: predict the rest of it, with the
    steps, checkpoints, failures and restarts that it has had."""
    rl: Annotated[str | None, Argument("FILE", group="job")] = None
    """Predict a step of reinforcement learning whose policy trains as the run: a file with rollouts
    and updates, or its keys ('{prompts: 64, ...}'; the section `rl` of a run file)."""
    islands: Annotated[str | None, Argument("FILE", group="job")] = None
    """Predict islands that meet seldom (DiLoCo), each of which trains as the run: a file, or its
    keys ('{count: 8, every: 100, link: 1Gb/s}'; the section `islands` of a run file)."""
    fabric: Annotated[str | None, Argument("NAME", group="fabric")] = None
    """Predict with flows that share links: a kind of `plan fabric`, with a ratio if it is not
    non-blocking (rail-optimised,4:1), `tiers` for those of the cluster, or a file of ibnetdiscover,
    topograph, NetQ, Slurm (topology.conf) or, of one node, NCCL (NCCL_TOPO_DUMP_FILE)."""
    routing: Annotated[Routing, Argument(group="fabric")] = "ecmp"
    """How they find their way: hashed (ecmp), by fixed tables, over whatever is free (adaptive:
    InfiniBand, spraying), or over a random group of a dragonfly first."""
    qps: Annotated[QueuePairs, Argument("N", group="fabric")] = 1
    """Queue pairs of a connection, each hashed by itself (NCCL_IB_QPS_PER_CONNECTION)."""
    rank_order: Annotated[LocalFile | None, Argument("FILE", group="fabric")] = None
    """Nodes in the order of ranks, one a line, as in SLURM_HOSTFILE; those of the fabric in their
    own order if not given."""

    def answer(self, progress: Progress = quiet) -> Answer:
        """The prediction: of a step, of a job, or of what a step is part of."""
        with catalogue_overlay(self.catalogue):
            if self.work is not None:
                self.refuse_beside_work("fabric", "measured", "rl", "islands", "life")
                return self._recorded(progress)
            section = self._section()
            return self._around(section) if section else self._step(progress)

    def _recorded(self, progress: Progress) -> Answer:
        """The step of a recorded program, or a job that repeats it."""
        prediction, keys = self.recorded(), self._length() | self.job
        if not keys:
            return prediction
        from syncwall.job.completion import recorded_job

        return _completed(recorded_job(prediction, keys), prediction, progress)

    def _length(self) -> dict[str, Any]:
        """How long the job is, in the ways that are stated."""
        length = {"tokens": self.tokens, "steps": self.steps, "samples": self.samples}
        return {key: value for key, value in length.items() if value is not None}

    def _step(self, progress: Progress) -> Answer:
        from syncwall.answer.prediction import predict

        known, run = self.measurements(), self.described()
        if self.measured is not None:
            run = self.stated.with_keys({"measured": self.measured}).run()
        job = self._job(run)
        shared = self._shared_links(run.cluster)
        prediction = predict(run, network=shared, site=self.known_site(known), measured=known)
        prediction = replace(prediction, without_effect=self._notes(prediction))
        if job is None:
            return prediction
        return _completed(job, prediction, progress)

    def _notes(self, prediction: "Prediction") -> tuple[str, ...]:
        """What of the question changes nothing, or means something else in the framework named."""
        stated = self.stated
        if not (stated.file.exists or stated.keys):
            return ()
        run, family = prediction.run, prediction.prices.setting.framework
        idle = without_effect(stated.values, run.layout, usual_switches(run.layout, family, run.software))
        flags = [key for key in ("compiled", "eager") if getattr(self, key)]
        alone = [f"{key} has no effect: it is of a recorded program (`work`)" for key in flags]
        measured = stated.values.get("measured") if self.measured is None else self.measured
        if isinstance(measured, int | float | str) and MeasuredSpeed.model_validate(measured).logged:
            name = prediction.run.software.framework
            alone.append(f"measured {measured} is read as tokens/s/GPU, which is what {name} logs")
        return (*alone, *idle, *stated.notes)

    def _shared_links(self, cluster: Cluster) -> "SharedLinks | None":
        """The links that flows share; None if no fabric is named."""
        if self.fabric is None:
            if self.routing != "ecmp" or self.qps != 1 or self.rank_order is not None:
                said = ", ".join(map(option, ("routing", "qps"))) + f" and {option('rank_order')}"
                raise InputError.of(f"{said} are of {option('fabric')}: add it")
            return None
        from syncwall.ask.fabric import links_named
        from syncwall.cost.contended_network import SharedLinks

        links, order = links_named(self.fabric, cluster), None
        if self.rank_order is not None:
            from syncwall.read.fabric_links import rank_order

            order = rank_order(self.rank_order, links)
        return SharedLinks(links, self.routing, self.qps, order, self.fabric)

    def _job(self, run: Run) -> Job | None:
        """The job of a run, or what is left of it after its life; None if nobody states a job."""
        keys = self._length() | self.job
        if "samples" in keys:
            if {"steps", "tokens"} & keys.keys():
                raise InputError.of("write one length of the job", key="samples")
            from syncwall.job.completion import steps_of

            keys["steps"] = steps_of("samples", keys.pop("samples"), run.layout.global_batch)
        if self.life is None:
            return self.stated.file.job(run, keys)
        from syncwall.watch.life import life_of, rates_of, read_life, rest_of

        lived = life_of(read_life(self.life))
        rates = rates_of(lived)
        if rates is None:
            raise InputError.of(f"{self.life}: no step of the job counts yet")
        if rates.nodes != run.nodes:
            raise InputError.of(f"{self.life}: a job on {rates.nodes} nodes; the run has {run.nodes}")
        whole = self.stated.file.job(run, {**stated_keys(rates.job_keys()), **keys})
        return rest_of(whole, lived) if whole is not None else None

    def _section(self) -> Section | None:
        """The section that the question is about, in its run file or beside it; None: neither."""
        given: list[Section] = [key for key in ("rl", "islands") if getattr(self, key) is not None]
        meant = list(dict.fromkeys([*given, *self.stated.file.sections]))
        if not meant:
            return None
        if len(meant) > 1:
            raise InputError.of(f"{' and '.join(meant)} are two questions: leave out one of them")
        section = "rl" if meant[0] == "rl" else "islands"
        beside = [key for key in ("tokens", "steps", "samples", "life") if getattr(self, key) is not None]
        beside += ["measured"] * (self.measured is not None)
        beside += ["fabric"] * (self.fabric is not None) + [f"job.{key}" for key in self.job]
        if section == "rl":
            beside += [key for key in _SAMPLED if f"layout.{key}" in self.stated.keys]
        if beside:
            raise InputError.of(f"{option(beside[0])} is not for a step with `{section}`: leave it out")
        if "measured" in self.stated.file.keys:
            raise InputError.of(f"`measured` is not for a step with `{section}`: leave it out")
        return section  # type: ignore[return-value]

    def _around(self, section: Section) -> Answer:
        """What a step of the run is part of: reinforcement learning, or islands (DiLoCo)."""
        run = replace(self.stated, reads_sections=True).run()
        known = self.measurements()
        site, file = self.known_site(known), self.stated.file
        if section == "rl":
            from syncwall.answer.rl_step import predict_rl
            from syncwall.describe.rl_and_islands import RlStep

            return predict_rl(run, file.section(RlStep, self.rl), measured=known, site=site)
        from syncwall.answer.islands import predict_islands
        from syncwall.describe.rl_and_islands import Islands

        islands = file.section(Islands, self.islands)
        return predict_islands(run, islands, measured=known, site=site)


def _completed(job: Job, prediction: "Prediction", progress: Progress) -> "Completion":
    """When `job` will be done, and what would change that, both while `progress` is told."""
    from syncwall.job.completion import finish, job_changes

    workers = os.cpu_count() or 1 if job.simulations >= _SHARED_FROM else 1
    found = finish(job, prediction, progress=lambda share: progress(_FIRST * share), workers=workers)
    others = job_changes(found, lambda share: progress(_FIRST + (1 - _FIRST) * share))
    vars(found)["changes"] = others  # kept, as if they had been asked for before
    return found
