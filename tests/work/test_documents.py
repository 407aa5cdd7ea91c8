"""Packed sequences whose mask keeps documents apart."""

import pytest

import syncwall as sw
from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.work.flops import forward_flops, step_flops
from syncwall.work.layer import Shape
from syncwall.work.memory import step_memory
from tests.describe.samples import model

SEQ = 4096


def run(document=None, seq=SEQ, **layout):
    fields = {"shard": "fsdp", "global_batch": 64, "micro_batch": 1, "recompute": "none", **layout}
    if document is not None:
        fields["document"] = document
    return sw.Run(
        model="llama-3.1-8b", cluster="dgx-h100", nodes=1, seq=seq, layout=Layout.model_validate(fields)
    )


@pytest.mark.parametrize("document", [SEQ, 10 * SEQ])
def test_one_document_a_sequence_is_the_sequence(document):
    plain, packed = sw.predict(run()), sw.predict(run(document))
    assert packed.step_s == plain.step_s
    assert packed.ledger == plain.ledger


def test_attention_among_documents_is_that_of_as_many_short_sequences():
    """Whatever sees one token at a time does the same; attention sees a document."""
    plain = Layout().resolved(1)
    packed = plain.model_copy(update={"document_tokens": 512})
    one = step_flops(Shape(model(), packed, SEQ))["model_flops"]
    short = step_flops(Shape(model(), plain, 512))["model_flops"]
    assert one == pytest.approx(short * SEQ / 512, rel=1e-12)


def test_flops_are_those_of_the_pairs_that_the_mask_leaves():
    """Counted pair by pair: query i of a document sees i + 1 keys."""
    lengths = [512] * 8
    described = model()
    pairs = sum(length * (length + 1) / 2 for length in lengths)
    whole = SEQ * (SEQ + 1) / 2
    _, scores = forward_flops(described, SEQ)
    layout = Layout().resolved(1).model_copy(update={"document_tokens": 512})
    packed = step_flops(Shape(described, layout, SEQ))["model_flops"]
    plain = step_flops(Shape(described, Layout().resolved(1), SEQ))["model_flops"]
    assert plain - packed == pytest.approx(3 * scores * (1 - pairs / whole), rel=1e-9)


def test_shorter_documents_never_slow_a_step_and_change_attention_only():
    steps = [sw.predict(run(document, seq=32768)) for document in (None, 8192, 2048, 512)]
    assert [one.step_s for one in steps] == sorted((one.step_s for one in steps), reverse=True)
    kinds = [{c: s for c, s in one.ledger.items() if c is Cause.GEMM} for one in steps]
    assert all(one == kinds[0] for one in kinds)
    assert steps[3].ledger[Cause.ATTENTION] < 0.1 * steps[0].ledger[Cause.ATTENTION]


def test_kept_scores_are_those_of_documents():
    def scores(document):
        layout = Layout.model_validate({"kept_attention_scores": True, "micro_batch": 1})
        alone = layout.resolved(1).model_copy(update={"document_tokens": document})
        return float(step_memory(model(), alone, SEQ).activations)

    without = float(step_memory(model(), Layout().resolved(1), SEQ).activations)
    assert scores(512) - without == pytest.approx((scores(None) - without) / 8, rel=1e-9)
