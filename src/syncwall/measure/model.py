"""A described transformer as a PyTorch module with random weights.

Holds `built`. Dense decoders only.
"""

from typing import Any

from syncwall.describe import Model
from syncwall.problems import InputError


def built(model: Model, seq: int) -> Any:
    """`model` as a torch.nn.Module; see `layers.Decoder`."""
    _refuse_what_is_not_built(model)
    from syncwall.measure.layers import Decoder

    return Decoder(model, seq)


def _refuse_what_is_not_built(model: Model) -> None:
    kinds = {
        "experts": model.moe is not None,
        "latent attention": model.attention.latent is not None,
        "attention in a window": model.attention.window is not None,
        "multi-token prediction": model.mtp_layers > 0,
        "learned positions": model.learned_positions > 0,
    }
    found = [name for name, present in kinds.items() if present]
    if found:
        raise InputError.of(
            f"{model.name} has {found[0]}: `measure` builds dense decoders with rotary positions"
        )
