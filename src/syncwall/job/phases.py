"""The phases of a job, each predicted as the run that it is.

Holds `predicted_phases`, `PredictedPhases` and `PredictedPhase`. A job without phases is one
stretch of equal steps, whose prediction is that of its run.
"""

from dataclasses import dataclass
from functools import cached_property

from syncwall.answer.prediction import Prediction
from syncwall.describe import Job
from syncwall.describe.phase import Stretch
from syncwall.public import published


@published(
    "phase=stretch.phase global_batch=stretch.run.layout.global_batch seq=stretch.run.seq",
    "steps=stretch.steps tokens=stretch.tokens step_s=prediction.step_s",
    "tokens_per_s_per_gpu=prediction.tokens_per_s_per_gpu mfu=prediction.mfu",
    "fits=prediction.fits work_s gpu_hours ledger_s=prediction.ledger",
)
@dataclass(frozen=True)
class PredictedPhase:
    """Steps of a job that are alike: a phase, or one batch size of a phase whose batch grows."""

    stretch: Stretch
    prediction: Prediction

    @property
    def work_s(self) -> float:
        """All its steps at the P50 of a step, undisturbed."""
        return self.stretch.steps * self.prediction.step_s

    @property
    def gpu_hours(self) -> float:
        """Of its GPUs in that time, without spares."""
        return self.work_s * self.stretch.run.gpus / 3600.0


@dataclass(frozen=True)
class PredictedPhases:
    """All of them, in their order."""

    parts: tuple[PredictedPhase, ...]

    @property
    def steps(self) -> int:
        """Optimizer steps of the job."""
        return sum(one.stretch.steps for one in self.parts)

    @cached_property
    def work_s(self) -> float:
        """Time of all steps, P50, if nothing disturbs them."""
        return sum(one.work_s for one in self.parts)

    @property
    def step_s(self) -> float:
        """Mean time of a step."""
        return self.longest.prediction.step_s if self.is_one else self.work_s / self.steps

    @property
    def deviation(self) -> float:
        """Of ln(true time / P50) of all steps together: what makes one phase slower than predicted
        (device, network, software) is the same in the others, so deviations add up by their time.
        """
        if self.is_one:
            return self.longest.prediction.interval.deviation
        spread = (one.work_s * one.prediction.interval.deviation for one in self.parts)
        return sum(spread) / self.work_s

    @property
    def is_one(self) -> bool:
        """True if all steps are alike."""
        return len(self.parts) == 1

    @cached_property
    def longest(self) -> PredictedPhase:
        """Where most of the time goes; stands for the job where only one run can be shown."""
        return max(self.parts, key=lambda one: one.work_s)

    @property
    def fits(self) -> bool:
        """True if every phase fits in memory."""
        return all(one.prediction.fits for one in self.parts)


def predicted_phases(job: Job, prediction: Prediction) -> PredictedPhases:
    """The phases of `job`; `prediction`, of its run, says how operations are priced."""
    return PredictedPhases(
        tuple(
            PredictedPhase(one, prediction if one.run is job.run else prediction.again(one.run))
            for one in job.stretches
        )
    )
