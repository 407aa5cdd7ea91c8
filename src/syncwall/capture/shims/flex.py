"""Flex attention has no backward pass on the CPU: the attention that it amounts to stands in.

Which blocks a mask leaves is known only from its values: one whose name says so is causal, any
other is taken as leaving everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import flex_attention as flex

from syncwall.capture.shims.patch import everywhere, need
from syncwall.capture.state import State
from syncwall.work.program import NoteKind


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Fused attention in its place."""
    original = need(flex, "flex_attention")
    makes_mask = need(flex, "create_block_mask")

    def flex_attention(  # noqa: PLR0913, PLR0917
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Any = None,
        block_mask: Any = None, scale: float | None = None, enable_gqa: bool = False, **_: Any,
    ) -> Any:  # fmt: skip
        mask = getattr(block_mask, "mask_mod", block_mask)
        is_causal = "causal" in getattr(mask, "__name__", "")
        if mask is not None and not is_causal:
            state.tape.note(NoteKind.NOT_RECORDED, "blocks that a mask of flex attention removes",
                            state.places.now()[1])  # fmt: skip
        return functional.scaled_dot_product_attention(
            query, key, value, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )

    def create_block_mask(mask_mod: Any, *_: Any, **__: Any) -> Any:
        return mask_mod

    with everywhere({original: flex_attention, makes_mask: create_block_mask}):
        yield
