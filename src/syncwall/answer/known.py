"""The site that measured runs describe.

Holds `SiteFile` (one node, measured), `site_from` (known runs), `site_of` (files of both) and
`site_at` (predictions with their measured times).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any, Final, Self

import yaml
from pydantic import model_validator

from syncwall.answer.many import shares_of
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.site import KnownStep, Site
from syncwall.cost.framework_costs import AS_CATALOGUED, Knobs
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.base import Description, faults
from syncwall.describe.files import run_keys
from syncwall.describe.reading import validated
from syncwall.describe.run import KnownRun
from syncwall.documents import read_document
from syncwall.problems import InputError

EXAMPLE: Final = "known_runs: [{model: llama-3.1-8b, cluster: dgx-h100, nodes: 1, measured: 1.9 s}]"
"""The least that a site file holds."""

BROKEN_FROM: Final = 3.0
"""Measured over predicted time, or its inverse, from which on a known run is a wrong unit or a broken
run; first contacts below it bring other runs of their site nearer, see docs/decisions/0025."""
_PASSES: Final = 3
"""How often the shares are taken again where the knobs then stand: what prices do to a step is not
quite linear, because what overlaps may begin or cease to be waited for."""


class SiteFile(Description):
    """One node, measured: what `syncwall measure node` writes, and `--site` takes."""

    known_runs: tuple[KnownRun, ...]
    """Steps that ran there: run files with `measured`."""
    calibration: MachineMeasurements = MachineMeasurements()
    """Kernels and collectives, as `measure calibration` writes them."""

    @model_validator(mode="before")
    @classmethod
    def _has_known_runs(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value.get("known_runs"):
            raise faults([((), f"a site file has `known_runs`, as `measure node` writes it: {EXAMPLE}")])
        return value

    @model_validator(mode="after")
    def _is_one_device(self) -> Self:
        names = {run.cluster.device.name for run in self.known_runs}
        if len(names) > 1:
            raise ValueError(
                f"known runs of one site are on one device, not on {' and '.join(sorted(names))}"
            )
        return self

    def site(self, further: Sequence[KnownRun] = (), measured: MachineMeasurements | None = None) -> Site:
        """The site, with `further` known runs, and what was `measured` in place of its own."""
        found = site_from([*self.known_runs, *further], measured or self.calibration)
        return replace(found, device=self.known_runs[0].cluster.device.name)

    def text(self) -> str:
        """The file."""
        fields = {
            "known_runs": [run_keys(run, brief=True) for run in self.known_runs],
            "calibration": self.calibration.model_dump(mode="json", exclude_defaults=True),
        }
        return str(yaml.safe_dump(fields, sort_keys=False, default_flow_style=None, width=110))


def site_of(files: Sequence[str | Path], measured: MachineMeasurements | None = None) -> Site:
    """What `files` say of all runs at their site, beside what was `measured`.

    Each is a known run; one may be a site file.
    """
    documents = [read_document(Path(path)) for path in files]
    sites = [one for one in documents if isinstance(one.value, dict) and "known_runs" in one.value]
    known = [validated(one, KnownRun) for one in documents if one not in sites]
    if len(sites) > 1:
        raise InputError.of("is a second site file: name one", file=sites[1].file)
    return validated(sites[0], SiteFile).site(known, measured) if sites else site_from(known, measured)


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
    return replace(site, left_out=tuple(left_out), calibration=measured)


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
