"""The fit of how much sites differ reads only what it may, and finds what it should."""

import numpy as np
import pytest
from bench.fit.sites import START, fitted, model_of, read

from syncwall.answer.interval import register_lines
from syncwall.answer.site import FILE, SitePrior, site_prior
from syncwall.documents import read_document
from syncwall.validate.score import KnownSet
from syncwall.validate.table import RunRow
from tests.answer.known_steps import COMPUTING
from tests.validate.samples import row


def rows(source: str, count: int, **cells: str) -> list[RunRow]:
    return [row(id=f"{source}-{place}", source=source, **cells) for place in range(count)]


def test_only_rows_that_fits_may_read_and_sources_with_enough_of_them():
    given = [
        *rows("internevo", 9),
        *rows("aleph-alpha-layouts-2023", 9),
        *rows("torchtitan", 9),
        *rows("bloom-prequel", 5),
        *rows("dgxc-benchmarking", 9, grade="C"),
    ]
    assert set(read(given)) == {"internevo", "aleph-alpha-layouts-2023"}


def test_a_first_contact_counts_as_the_register_has_it():
    """The model of today may have learned from it; a stranger's runs are as far off as it was."""
    line = next(one for one in register_lines() if one["part"] == "calibration")
    given = [*rows("internevo", 5), row(id=line["id"], source="internevo")]
    assert read(given)["internevo"].logs[-1] == pytest.approx(-np.log(float(line["ratio"])))


def test_the_file_is_what_the_model_takes():
    table = read_document(FILE).value
    assert set(table["between"]) | {f"within {key}" for key in table["within"]} > {"gemm", "reach"}
    assert SitePrior.of(table["between"], table["within"]) == site_prior()
    assert set(START) == set(table["between"]) - {"fitted"}


@pytest.mark.weekly
def test_sites_that_differ_more_are_trusted_more():
    """Ten sites of alike runs: with a bias of 20% each, or with none and 20% from run to run."""
    lot = np.random.default_rng(1)
    shares, apart = np.tile(COMPUTING, (12, 1)), np.zeros((12, 12))

    def prior(between: float, within: float) -> SitePrior:
        sets = {
            str(place): KnownSet(lot.normal(0, between) + lot.normal(0, within, 12), shares, apart)
            for place in range(10)
        }
        return model_of(fitted(sets)).prior

    biased, noisy = prior(0.2, 0.01), prior(0.01, 0.2)
    assert biased.setup > noisy.setup
