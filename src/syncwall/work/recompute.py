"""Which parts of a layer Megatron's modules of selective recomputation repeat.

Holds `in_modules` and `LAST`. Source: Megatron-Core's `recompute_modules`.
"""

from collections.abc import Sequence

from syncwall.cause import Cause
from syncwall.describe.switches import RecomputeModule
from syncwall.work.parts import LayerPart

_EXACTLY: dict[RecomputeModule, frozenset[str]] = {
    "layernorm": frozenset({"attention norm", "mixer norm", "MLP norm", "expert norm"}),
    "mla_up_proj": frozenset({"query up", "key value up"}),
    "moe_act": frozenset({"experts activation", "experts down cast"}),
}
_BEGINNING: dict[RecomputeModule, tuple[str, ...]] = {
    "mlp": ("MLP ",),
    "shared_experts": ("shared experts ",),
    "moe": (
        "router",
        "latent",
        "permute",
        "dispatch",
        "experts ",
        "combine",
        "unpermute",
        "shared experts ",
    ),
}
"""Names of the parts of each module."""
LAST = frozenset({"MLP down", "shared experts down"})
"""Multiplications whose result only goes on to the next layer: no gradient of this one needs it."""


def in_modules(part: LayerPart, modules: Sequence[RecomputeModule]) -> bool:
    """True if one of `modules` repeats `part`."""
    return any(
        (module == "core_attn" and part.cause is Cause.ATTENTION)
        or part.name in _EXACTLY.get(module, ())
        or part.name.startswith(_BEGINNING.get(module, ("\0",)))
        for module in modules
    )
