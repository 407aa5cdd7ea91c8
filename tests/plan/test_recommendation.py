"""Which of several layouts is recommended."""

from dataclasses import dataclass, field

import pytest

import syncwall as sw
from syncwall.describe import Layout
from syncwall.plan.recommendation import NEAR, SAFER, recommended
from syncwall.plan.search import search


@dataclass(frozen=True)
class Offer:
    name: str
    step_s: float
    fit_probability: float = 0.99
    unusual: tuple[str, ...] = ()
    memory_bytes: float = 4e10
    gpus: int = 64
    layout: Layout = field(default_factory=Layout)

    @property
    def is_sure(self):
        return self.fit_probability >= 0.9

    def rank(self, objective):
        return (self.step_s,)


def names(*offers):
    return [one.name for one in recommended(offers, "fastest")]


def test_a_sure_fit_goes_first_where_it_costs_little():
    assert names(Offer("tight", 1.0, 0.6), Offer("sure", 1.0 + 0.9 * SAFER)) == ["sure", "tight"]
    assert names(Offer("tight", 1.0, 0.6), Offer("sure", 1.0 + 1.1 * SAFER)) == ["tight", "sure"]


def test_of_those_that_may_not_fit_the_likelier_goes_first():
    likelier = Offer("likelier", 1.01, 0.85, ("more than 8 virtual stages",))
    assert names(Offer("tight", 1.0, 0.6), likelier) == ["likelier", "tight"]


def test_the_usual_goes_first_where_times_are_near():
    rare = Offer("rare", 1.0, unusual=("a zero-bubble or DualPipe schedule",))
    assert names(rare, Offer("usual", 1.0 + 0.9 * NEAR)) == ["usual", "rare"]
    assert names(rare, Offer("usual", 1.0 + 1.1 * NEAR)) == ["rare", "usual"]


@pytest.mark.parametrize(
    ("feature", "worth"),
    [
        ("cp below 16k tokens", 1.09),
        ("a pipeline or cp for adapters or an encoder", 1.4),
        ("tp beyond one scale-up domain", 1.4),
    ],
)
def test_what_people_avoid_is_recommended_only_where_it_is_much_faster(feature, worth):
    rare = Offer("rare", 1.0, unusual=(feature,))
    assert names(rare, Offer("usual", worth), Offer("slow", 2.0)) == ["usual", "slow", "rare"]
    assert names(rare, Offer("usual", 1.6))[0] == "rare"


def test_layouts_that_may_not_fit_take_the_recomputation_that_is_chosen_for_them():
    """The search tries whole layers only; norms alone are cheaper to compute again."""
    found = search(sw.model("llama-3.1-70b"), sw.cluster("dgx-h100").with_gpus(128), global_batch=256)
    tight = [one for one in found.untuned(30) if not one.is_sure]
    safer = [found._tuned(one) for one in tight]
    assert tight
    assert any(one.layout.recompute_modules == ("layernorm",) for one in safer)
    assert all(
        new.fit_probability >= old.fit_probability - 1e-9 or new.step_s < old.step_s
        for new, old in zip(safer, tight, strict=True)
    )
