"""Adapters of a whole model, counted for tests."""

from syncwall.describe.switches import Lora, adapted
from syncwall.describe.transformer import Transformer


def adapter_parameters(model: Transformer, lora: Lora) -> int:
    """Trained parameters of the whole model."""
    return sum(
        kind.count * lora.rank * (one.rows + one.columns)
        for kind in model.layer_kinds
        for one in adapted(model, kind, lora)
    )
