"""Work of models that are not decoders."""

import pytest

from syncwall.describe import Layout, Model, lookup
from syncwall.work.block import Work
from syncwall.work.flops import forward_flops
from syncwall.work.memory import step_memory
from syncwall.work.operations import CoreAttention
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import model
from tests.describe.test_encoder import seeing


@pytest.mark.parametrize("window", [1, 3, 9, 31, 63, 101])
def test_a_window_with_two_sides_counted_pair_by_pair(window):
    core = CoreAttention(1, 1, 32, 32, 64, 64, window=window, is_causal=False)
    pairs = sum(abs(query - key) <= window // 2 for query in range(32) for key in range(32))
    assert core.pairs == pytest.approx(pairs)


def test_full_attention_has_the_scores_above_the_diagonal_too():
    seq = 1024
    _, causal = forward_flops(model(), seq)
    _, full = forward_flops(model(attention={"heads": 32, "kv_heads": 8, "causal": False}), seq)
    assert full / causal == pytest.approx(2 * seq / (seq + 1))


def test_weights_of_an_encoder_are_all_held_once():
    """Positions and biases of the logits are too few to count."""
    bert = lookup.model("bert-large")
    held = step_memory(bert, Layout().resolved(1), 512)
    few = (bert.learned_positions + bert.token_types + 1) * bert.hidden + bert.vocab
    assert held.weights / 2 == pytest.approx(bert.parameters - few, rel=1e-3)


def _step(of: Model) -> Work:
    return transformer_step(of, Layout(shard="fsdp", micro_batch=2).resolved(8), 2048)


def test_a_frozen_tower_goes_forward_only():
    frozen, trained = (_step(seeing(frozen=frozen)).stages[1] for frozen in (True, False))
    assert [block.name for block in frozen.forward] == [block.name for block in trained.forward]
    missing = {block.name for block in trained.backward} - {block.name for block in frozen.backward}
    assert missing == {"encoder embedding", "encoder dense layer", "encoder norm"}


def test_a_frozen_tower_counts_a_third_of_its_flops():
    """And the projector lacks the gradient of its input, the patches had none."""
    frozen, trained = (_step(seeing(frozen=frozen)).model_flops for frozen in (True, False))
    tower = seeing().encoder
    assert tower is not None and tower.patches is not None  # noqa: PT018
    forward, _ = forward_flops(tower, 576)
    patches, projector = (2 * 576 * n * 1024 for n in (588, 4096))
    assert (trained - frozen) / 16 == pytest.approx(2 * forward - patches + projector)


def test_a_frozen_tower_has_weights_but_no_states():
    layout = Layout(shard="ddp", micro_batch=2).resolved(8)
    plain, frozen, trained = (
        step_memory(one, layout, 2048) for one in (model(), seeing(), seeing(frozen=False))
    )
    tower = seeing().encoder
    assert tower is not None
    assert trained.weights == frozen.weights > plain.weights
    few = (tower.parameter_count.total) * 1e-3
    each = trained.optimizer - frozen.optimizer
    assert each / (frozen.optimizer / (model().parameters + 21_000_000)) == pytest.approx(
        tower.parameters, rel=0.01, abs=few
    )
    assert trained.activations > frozen.activations > plain.activations


def test_more_images_are_more_work_of_the_tower_only():
    one, two = (_step(seeing(each=each)) for each in (1, 2))
    assert two.tokens == one.tokens
    projector = 2 * 576 * (1024 * 4096 + 4096 * 4096)
    tower = seeing().encoder
    assert tower is not None
    forward, _ = forward_flops(tower, 576)
    backward = 2 * projector - 2 * 576 * 1024 * 4096
    assert (two.model_flops - one.model_flops) / 16 == pytest.approx(forward + projector + backward)
