import pytest
from pydantic import ValidationError

import syncwall as sw
from syncwall.describe import Layout
from syncwall.describe.switches import FROZEN_BYTES, Lora
from tests.describe.adapters import adapter_parameters


@pytest.mark.parametrize(
    ("model", "lora", "count"),
    [
        ("llama-3.1-8b", {"rank": 16}, 41_943_040),
        ("llama-3.1-8b", {"rank": 8, "targets": ["q_proj", "v_proj"]}, 3_407_872),
        ("llama-2-7b", {"rank": 8, "targets": ["q_proj", "v_proj"]}, 4_194_304),
        ("llama-3.1-8b", {"rank": 64, "targets": ["attention", "mlp"]}, 4 * 41_943_040),
    ],
)
def test_trained_parameters_are_those_that_peft_prints(model, lora, count):
    assert adapter_parameters(sw.model(model), Lora.model_validate(lora)) == count


def test_nf4_takes_as_many_bits_as_qlora_says():
    assert 8 * FROZEN_BYTES["nf4"] == pytest.approx(4.127, abs=5e-4)
    assert 8 * FROZEN_BYTES["nf4-single"] == 4.5


def test_adapters_freeze_all_other_weights():
    assert Layout.model_validate({"lora": {"rank": 8}}).frozen_weights
    with pytest.raises(ValidationError, match="leave out frozen_weights"):
        Layout.model_validate({"lora": {"rank": 8}, "frozen_weights": False})


def test_a_target_that_nobody_has_is_refused():
    with pytest.raises(ValidationError):
        Lora.model_validate({"rank": 8, "targets": ["c_attn"]})
