"""DeepSeek-V3 on 2,048 H800 as its report describes it (arXiv 2412.19437)."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.describe import Layout, Run, Software


def predicted(**layout: Any) -> Prediction:
    """DualPipe over 16 ranks, 64 expert-parallel ones, blocks scaled in fp8, 15,360 x 4,096 tokens.

    It recomputes norms and up-projections, which the nearest word, `selective`, stands for.
    """
    stated = {
        "pp": 16,
        "ep": 64,
        "schedule": "dualpipe",
        "virtual_stages": 1,
        "precision": "fp8",
        "global_batch": 15360,
        "micro_batch": 1,
        "shard": "zero1",
        "overlap_ep": True,
        "dispatcher": "deepep",
        "recompute": "selective",
    } | layout
    return sw.predict(
        Run(
            model=sw.model("deepseek-v3"),
            cluster=sw.cluster("deepseek-h800"),
            nodes=256,
            seq=4096,
            layout=Layout.model_validate(stated),
            software=Software(date="2024-12", fp8_scaling="block"),
        )
    )


def test_a_step_takes_as_long_as_published():
    """180,000 GPU hours for a trillion tokens: 1,543 tokens/s a GPU, 19.9 s."""
    found = predicted()
    assert found.run.model.mtp_layers == 1
    assert found.step_s == pytest.approx(19.9, rel=0.15)


def test_the_prediction_layer_does_not_set_the_pace():
    """Stages are cut with it, and both ends of the pipeline share the head."""
    found = predicted()
    assert found.run.layout.balanced_stages
    assert found.ledger["output layer"] < 0.1 * found.step_s
    whole = predicted(balanced_stages=False)
    assert whole.step_s > 1.1 * found.step_s


def test_dualpipe_leaves_a_third_of_the_bubble():
    found, plain = (predicted(schedule=name) for name in ("dualpipe", "1f1b"))
    assert found.ledger["pipeline bubble"] < 0.6 * plain.ledger["pipeline bubble"]
