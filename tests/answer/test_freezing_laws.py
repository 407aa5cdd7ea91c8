"""Laws of what is not trained: it never slows a step, and never needs more memory."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer import predict
from syncwall.describe import Layout, Run
from tests.describe.samples import MOE, model
from tests.describe.test_encoder import seeing

SLACK = 1 + 1e-9
many = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
PARTS = st.sampled_from(
    [
        ("encoder",),
        ("projector",),
        ("decoder",),
        ("encoder", "projector"),
        ("encoder", "decoder"),
        ("projector", "decoder"),
    ]
)
LAYOUTS = st.fixed_dictionaries(
    {
        "shard": st.sampled_from(["ddp", "zero1", "zero2", "fsdp"]),
        "tp": st.sampled_from([1, 2, 8]),
        "micro_batch": st.sampled_from([1, 4]),
        "recompute": st.sampled_from(["none", "selective", "operations", "full"]),
        "precision": st.sampled_from(["bf16", "fp8"]),
        "master_weights": st.sampled_from(["copy", "stored"]),
        "narrow_weights": st.booleans(),
        "offload_optimizer": st.booleans(),
        "offload_layers": st.sampled_from([0, 8]),
        "unit_layers": st.sampled_from([1, 4, 64]),
        "overlap_gradients": st.booleans(),
        "overlap_parameters": st.booleans(),
    }
)


def _predicted(of: Any, layout: dict[str, Any], **frozen: Any) -> Any:
    stated = Layout.model_validate(layout | {"global_batch": 64} | frozen)
    return predict(Run(model=of, cluster=sw.cluster("dgx-h100"), nodes=2, seq=8192, layout=stated))


def _never_worse(less: Any, more: Any) -> None:
    assert less.step_s <= more.step_s * SLACK
    assert less.memory_bytes <= more.memory_bytes * SLACK
    assert less.ledger.total == pytest.approx(less.step_s, rel=1e-9)


@many
@given(LAYOUTS, PARTS)
def test_a_frozen_part_is_never_slower_and_never_needs_more_memory(layout, frozen):
    of = seeing(frozen=False)
    _never_worse(_predicted(of, layout, frozen=frozen), _predicted(of, layout))


@many
@given(LAYOUTS, st.booleans(), st.sampled_from([(0, 1), (1, 16), (16, 31), (31, 32)]))
def test_more_frozen_layers_are_never_slower_and_never_need_more_memory(layout, sparse, counts):
    of = model(moe=MOE, mlp=None) if sparse else model()
    fewer, more = (_predicted(of, layout, frozen_layers=count) for count in counts)
    _never_worse(more, fewer)


@many
@given(LAYOUTS, st.sampled_from([(1, 2), (2, 8)]))
def test_more_images_are_never_faster_and_never_need_less_memory(layout, counts):
    fewer, more = (_predicted(seeing(frozen=False), layout, images=count) for count in counts)
    _never_worse(fewer, more)
