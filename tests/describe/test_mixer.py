"""Parameters are compared with `transformers` in test_huggingface_reference.py."""

import pytest
from pydantic import ValidationError

from syncwall.describe import lookup
from syncwall.describe.layer_kinds import Mixer

PUBLISHED = {
    "nemotron-h-8b": (8.1e9, 8.1e9),
    "nemotron-h-47b": (46.8e9, 46.8e9),
    "nemotron-h-56b": (56.3e9, 56.3e9),
    "nemotron-nano-2-9b": (8.89e9, 8.89e9),
    "nemotron-nano-2-12b": (12.31e9, 12.31e9),
    "nemotron-3-nano": (31.6e9, 3.6e9),
    "nemotron-3-super": (120.6e9, 12.7e9),
    "nemotron-3-ultra": (550e9, 55e9),
    "falcon-h1-1.5b": (1.55e9, 1.55e9),
    "lfm2-1.2b": (1.17e9, 1.17e9),
    "mamba2-2.7b": (2.7e9, 2.7e9),
    "qwen3-next-80b-a3b": (80e9, 3.9e9),
    "kimi-linear-48b-a3b": (49.1e9, 3.5e9),
    "minimax-text-01": (456e9, 48.4e9),
}
"""As reports and model cards print them, but for what these only round (48B of Kimi Linear, and
active counts of Kimi Linear, Qwen3-Next and MiniMax, which leave out the ends): ours."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_hybrids_of_the_catalogue_have_the_published_size(name):
    total, active = PUBLISHED[name]
    found = lookup.model(name)
    assert found.parameters == pytest.approx(total, rel=0.005)
    assert found.active_parameters == pytest.approx(active, rel=0.02)


def test_keys_are_as_values_unless_stated():
    mixer = Mixer.model_validate({"kind": "kimi-delta", "heads": 32, "head_dim": 128})
    assert (mixer.groups, mixer.state) == (32, 128)
    assert mixer.mixed_width == 3 * mixer.value_width


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"key_heads": 3}, "3 key_heads do not divide 8 heads"), ({}, "conv must be 0")],
)
def test_what_cannot_be_is_refused(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        Mixer.model_validate({"kind": "lightning", "heads": 8, "head_dim": 64} | changes)
