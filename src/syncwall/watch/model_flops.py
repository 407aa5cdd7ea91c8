"""FLOPs of a model for its MFU: counted on a copy without memory, or those of its description.

Holds `counted_flops`, `tell_flops` (what a loop tells its agent) and `stated_flops` (what an agent
was told). The convention is that of `work.flops`: products with weights and attention below the
causal diagonal, backward twice forward. Only a forward pass is counted, so that activations that
are computed again do not raise it.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from syncwall.watch.events import Expectation
from syncwall.watch.place import folder

FLOPS: Final = "flops.json"


def tell_flops(per_token: float, peak_flops: float) -> None:
    """Say how many FLOPs a token takes and how many a device can do in a second, for the MFU."""
    with suppress(OSError):
        new = folder(os.environ) / f"flops-{os.getpid()}.new"
        new.write_text(json.dumps({"per_token": per_token, "peak_flops": peak_flops}), "utf-8")
        new.rename(new.with_name(FLOPS))


def stated_flops(home: Path, expected: Expectation | None = None) -> tuple[float | None, float | None]:
    """FLOPs of a token and of a device in a second, if the loop or a prediction says so."""
    with suppress(OSError, ValueError, KeyError):
        told = json.loads((home / FLOPS).read_text("utf-8"))
        return float(told["per_token"]), float(told["peak_flops"])
    return (expected.flops_per_token, expected.peak_flops) if expected else (None, None)


def counted_flops(model: Any, *given: Any, **named: Any) -> float:
    """Model FLOPs of a step with these arguments of the forward pass, without computing it."""
    import torch
    from torch.func import functional_call
    from torch.utils._pytree import tree_map_only
    from torch.utils.flop_counter import FlopCounterMode

    def on_meta(tensor: Any) -> Any:
        return torch.empty_like(tensor, device="meta")

    states = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    states = {name: on_meta(one.detach()) for name, one in states.items()}
    given, named = tree_map_only(torch.Tensor, on_meta, (given, named))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), _causal() as above, counter, _conditions_hold():
        functional_call(model, states, given, named, tie_weights=True)
    forward = counter.get_total_flops() - above.flops
    frozen = _frozen_share(model)
    return float(3 * forward - frozen * (forward - above.core))


def _conditions_hold() -> Any:
    """Without values, what models ask of them is true: nothing is padded, rows are one sequence."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    asked = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)

    class Hold(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return True if function in asked else function(*args, **(kwargs or {}))

    return Hold()


def _frozen_share(model: Any) -> float:
    sizes = [(one.numel(), one.requires_grad) for one in model.parameters()]
    whole = sum(size for size, _ in sizes)
    return sum(size for size, trains in sizes if not trains) / whole if whole else 0.0


class _Above:
    """FLOPs of attention: those above the diagonal of causal masks, and all others."""

    flops = 0.0
    core = 0.0

    def take(self, query: Any, key: Any, value: Any, *, is_causal: bool) -> None:
        queries, keys = query.shape[-2], key.shape[-2]
        heads = query[..., 0, 0].numel()
        square = 2.0 * heads * queries * keys * (query.shape[-1] + value.shape[-1])
        below = (queries + 1) / 2 / keys if is_causal else 1.0
        self.flops += square * (1.0 - below)
        self.core += square * below


@contextmanager
def _causal() -> Iterator[_Above]:
    """See what `scaled_dot_product_attention` is called with."""
    from torch.nn import functional

    above, function = _Above(), functional.scaled_dot_product_attention

    def seen(query: Any, key: Any, value: Any, *given: Any, **named: Any) -> Any:
        is_causal = bool(named.get("is_causal", given[2] if len(given) > 2 else False))
        above.take(query, key, value, is_causal=is_causal)
        call: Callable[..., Any] = function
        return call(query, key, value, *given, **named)

    functional.scaled_dot_product_attention = seen
    try:
        yield above
    finally:
        functional.scaled_dot_product_attention = function
