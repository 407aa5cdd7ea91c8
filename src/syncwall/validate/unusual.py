"""What a published run may have done that its table does not say.

Holds `partly` and `unusual`: further candidates for the layout of a row.
"""

from typing import Any

from syncwall.answer.open_fields import candidates, choices
from syncwall.cost.software import framework
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.framework_switches import kept_formats
from syncwall.describe.layout import Recompute
from syncwall.describe.state_formats import MasterWeights
from syncwall.validate.table import RunRow

_RECOMPUTED = (0.25, 0.5, 0.75)
"""Shares of a stage's layers that may be recomputed where the source does not say."""


def partly(layout: Layout, row: RunRow) -> dict[str, list[Any]]:
    """What "selective" may mean in PyTorch if nobody says of what: every second operation, or
    so many whole layers.
    """
    if layout.recompute is not Recompute.OPERATIONS or row.text("recompute_detail"):
        return {}
    return {"recompute": [Recompute.OPERATIONS, Recompute.FULL]}


def unusual(
    row: RunRow,
    model: Model,
    layout: Layout,
    cluster: Cluster,
    software: Software,
    silent: list[str],
) -> list[Layout]:
    """Candidates for a run that would not fit as its framework usually runs, though it ran.

    It recomputes what it does not mention, adds up gradients in 16 bits if it does mention that, or
    trains in pure 16 bits where the weights that are stored could be meant.
    """
    family = framework(software.framework).model_copy(update={"recompute": None})
    values = choices(model, layout, silent, family) | partly(layout, row)
    found, _ = candidates(model, layout, row.whole("seq_len"), cluster.gpus, values)
    if "recompute" in values:
        found += [
            one.model_copy(update={"recompute_layers": round(share * model.layers / one.pp)})
            for share in _RECOMPUTED
            for one in found
            if one.recompute is Recompute.FULL
        ]
    elif layout.kept_gradient_dtype is Dtype.FP32:
        summed = {"gradient_dtype": Dtype.BF16, "kept_gradient_dtype": Dtype.BF16}
        found += [one.model_copy(update=summed) for one in found]
    pure: dict[str, Any] = {"master_weights": MasterWeights.NONE}
    if layout.master_weights == MasterWeights.STORED:
        pure |= kept_formats(layout.model_copy(update=pure), family)
        found += [one.model_copy(update=pure) for one in found]
    return found
