"""The site that measured runs in files describe.

Holds `site_of`.
"""

from collections.abc import Sequence
from pathlib import Path

from syncwall.answer.prediction import predict
from syncwall.answer.site import Site
from syncwall.cost.measured import Measured
from syncwall.describe.known import KnownRun
from syncwall.describe.reading import read


def site_of(files: Sequence[Path], measured: Measured | None = None) -> Site:
    """What the known runs in `files` say of all runs at their site, beside what was `measured`."""
    known = [read(path, KnownRun) for path in files]
    found = [predict(run, measured=measured) for run in known]
    pairs = [(run.measured_s, one.step_s) for run, one in zip(known, found, strict=True)]
    return Site.of(pairs, [one.traits for one in found])
