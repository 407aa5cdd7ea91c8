"""The site that measured runs describe.

Holds `site_from` (known runs), `site_of` (files of them) and `site_at` (predictions with their
measured times).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Final

from syncwall.answer.many import shares_of
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.site import KnownStep, Site
from syncwall.cost.framework_costs import AS_CATALOGUED, Knobs
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.reading import read
from syncwall.describe.run import KnownRun

BROKEN_FROM: Final = 3.0
"""Measured over predicted time, or its inverse, from which on a known run is a wrong unit or a broken
run; first contacts below it bring other runs of their site nearer, see docs/decisions/0025."""
_PASSES: Final = 3
"""How often the shares are taken again where the knobs then stand: what prices do to a step is not
quite linear, because what overlaps may begin or cease to be waited for."""


def site_of(files: Sequence[str | Path], measured: MachineMeasurements | None = None) -> Site:
    """What the known runs in `files` say of all runs at their site, beside what was `measured`."""
    return site_from([read(Path(path), KnownRun) for path in files], measured)


def site_from(known: Sequence[KnownRun], measured: MachineMeasurements | None = None) -> Site:
    """What `known` runs say of all runs at their site, beside what was `measured` there.

    One that is off by `BROKEN_FROM` says nothing of a site, unless it is of the same build.
    """
    found = [predict(run, measured=measured) for run in known]
    speeds = [run.measured for run in known]
    times = [one.seconds_of(speed) for one, speed in zip(found, speeds, strict=True)]
    ratios = [time_s / one.step_s for one, time_s in zip(found, times, strict=True)]
    broken = [abs(log(ratio)) > log(BROKEN_FROM) for ratio in ratios]
    used = [number for number, speed in enumerate(speeds) if speed.same_build or not broken[number]]
    site = site_at(
        [found[number] for number in used],
        [times[number] for number in used],
        [speeds[number].same_build for number in used],
    )
    left_out = (ratio for number, ratio in enumerate(ratios) if number not in used)
    return replace(site, left_out=tuple(left_out))


def site_at(
    predictions: Sequence[Prediction], measured_s: Sequence[float], same_build: Sequence[bool] = ()
) -> Site:
    """The site at which runs that were predicted without it took `measured_s` a step."""
    site = Site()
    same = same_build or [False] * len(predictions)
    for _ in range(_PASSES):
        runs = zip(predictions, measured_s, same, strict=True)
        site = Site(tuple(_step(site, *one) for one in runs))
    return site


def _step(site: Site, prediction: Prediction, measured_s: float, same_build: bool) -> KnownStep:
    """A run as the knobs of `site` let see it."""
    run, traits = prediction.run, prediction.traits
    knobs = site.seen_from(traits, prediction.calibration.measured.knobs).knobs
    pricing = prediction.pricing.turned(knobs)
    step_s, shares = (
        prediction.step_s,
        shares_of(pricing, run.model, run.layout, run.seq, run.cluster)[0].tolist(),
    )
    if knobs is not AS_CATALOGUED:
        step_s = float(pricing.step(run.model, run.layout, run.seq, run.cluster).step_s)
    return KnownStep(measured_s / step_s * _turned(knobs, shares), tuple(shares), traits, same_build)


def _turned(knobs: Knobs, shares: Sequence[float]) -> float:
    """What a step with these `shares` is multiplied by."""
    logs = [log(float(knob)) for knob in knobs.by_name().values()]
    return exp(sum(share * one for share, one in zip(shares, logs, strict=True)))
