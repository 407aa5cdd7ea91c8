"""A knob changes the price of its own kind of work, and of nothing else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.many import shares_of
from syncwall.cause import Cause
from syncwall.cost.framework_costs import AS_CATALOGUED, KNOBS
from tests.answer.test_prediction import FSDP, run

CAUSES = {
    "gemm": Cause.GEMM,
    "attention": Cause.ATTENTION,
    "elementwise": Cause.OPTIMIZER,
}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_a_knob_scales_the_seconds_of_its_cause(name, cause):
    plain = sw.predict(run(**FSDP))
    dearer = plain.pricing.turned(replace(AS_CATALOGUED, **{name: 1.2}))
    found = sw.predict(plain.run, dearer)
    assert found.ledger[cause] == pytest.approx(1.2 * plain.ledger[cause])
    for other in set(CAUSES.values()) - {cause}:
        assert found.ledger[other] == pytest.approx(plain.ledger[other])


def test_a_slower_network_is_waited_for_longer():
    plain = sw.predict(run(**FSDP, tp=8))
    found = sw.predict(plain.run, plain.pricing.turned(replace(AS_CATALOGUED, network=1.5)))
    assert found.exposed_s > 1.4 * plain.exposed_s
    assert found.ledger[Cause.GEMM] == pytest.approx(plain.ledger[Cause.GEMM])


@pytest.mark.parametrize("host", [{}, {"offload_optimizer": True}, {"offload_layers": 32}])
def test_all_knobs_together_scale_the_step(host):
    plain = sw.predict(run(**FSDP, **host))
    every = plain.pricing.turned(replace(AS_CATALOGUED, **dict.fromkeys(KNOBS, 1.3)))
    assert sw.predict(plain.run, every).step_s == pytest.approx(1.3 * plain.step_s, rel=1e-6)


def test_shares_of_many_layouts_are_those_of_each():
    found = sw.predict(run(**FSDP))
    one, micro = found.run, [1, 2, 4]

    def shares(micro_batch: Any) -> Any:
        layout = one.layout.model_copy(update={"micro_batch": micro_batch})
        return shares_of(found.pricing, one.model, layout, one.seq, one.cluster)

    many = shares(np.array(micro))
    for row, each in zip(many, micro, strict=True):
        np.testing.assert_allclose(row, shares(each)[0], rtol=1e-9, atol=1e-12)
    assert many.sum(axis=1) == pytest.approx([1.0] * 3)
