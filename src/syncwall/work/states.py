"""Bytes of weights, gradients and optimizer states of one parameter.

Holds `stored_bytes`, `frozen_bytes`, `trained_bytes`, `master_bytes`, `moment_bytes`,
`optimizer_bytes`, `trained_state_bytes`, `kept_gradient_bytes` and `update_bytes`.
Formats are those that the layout names, or that its framework usually has.

Sources: ZeRO (Rajbhandari 2020); Dettmers 2022 for 8-bit moments; Shazeer 2018 for Adafactor.
"""

from syncwall.describe import Layout
from syncwall.describe.switches import MasterWeights, Optimizer
from syncwall.work.number import Number
from syncwall.work.sharing import weight_bytes

_MASTER_BYTES = {
    MasterWeights.NONE: 0.0, MasterWeights.COPY: 4.0, MasterWeights.REMAINDER: 2.0,
    MasterWeights.STORED: 0.0,
}  # fmt: skip
_MOMENTS = {Optimizer.ADAM: 2.0, Optimizer.MUON: 1.0, Optimizer.SGD: 1.0}
EIGHT_BIT_MOMENTS = 2 * (1.0 + 4.0 / 256)
"""Two moments in 8 bits and an fp32 scale for every 256 of each (Dettmers 2022, torchao)."""
ROWS_AND_COLUMNS = 0.0
"""Second moments of a matrix's rows and columns: next to nothing of it (Shazeer 2018)."""


def stored_bytes(layout: Layout) -> float:
    """Bytes of a weight where it is kept; with adapters, of a frozen matrix of a layer."""
    if layout.lora is not None and layout.lora.weight_bytes is not None:
        return layout.lora.weight_bytes
    if layout.frozen_weights or layout.narrow_weights:
        return layout.precision.size_bytes
    return trained_bytes(layout)


def frozen_bytes(layout: Layout) -> float:
    """Bytes of a weight that is not trained where others are: those it is computed with."""
    return min(stored_bytes(layout), weight_bytes(layout))


def trained_bytes(layout: Layout) -> float:
    """Bytes of a weight that is trained, or of one of an adapter, where it is kept."""
    return 4.0 if layout.master_weights == MasterWeights.STORED else weight_bytes(layout)


def master_bytes(layout: Layout) -> float:
    """Bytes of a weight beside those it is computed with; fp32 training needs none."""
    wide = weight_bytes(layout) == 4.0
    return 0.0 if wide else _MASTER_BYTES[MasterWeights(layout.master_weights)]


def moment_bytes(layout: Layout) -> float:
    """Bytes of the optimizer's moments."""
    if layout.optimizer == Optimizer.ADAM_8BIT:
        return EIGHT_BIT_MOMENTS
    if layout.optimizer == Optimizer.ADAFACTOR:
        return ROWS_AND_COLUMNS
    return _MOMENTS[Optimizer(layout.optimizer)] * layout.moment_dtype.size_bytes


def optimizer_bytes(layout: Layout) -> float:
    """Bytes of master weight and moments; weights without gradients have none."""
    return 0.0 if layout.frozen_weights else trained_state_bytes(layout)


def trained_state_bytes(layout: Layout) -> float:
    """Bytes of master weight and moments of a parameter that is trained."""
    return master_bytes(layout) + moment_bytes(layout)


def kept_gradient_bytes(layout: Layout) -> Number:
    """Bytes of the gradients that are kept until the optimizer runs.

    16-bit ones of their own are complete when a micro batch's activations are gone: they count in
    pipelines, where those of others are not.
    """
    if layout.frozen_weights:
        return 0.0
    own = weight_bytes(layout) * layout.separate_gradients * (layout.pp > 1)
    return layout.kept_gradient_dtype.size_bytes + own


def update_bytes(layout: Layout) -> float:
    """Memory traffic of the optimizer for a parameter.

    States are read and written, the weight is written, the gradient is read for its norm and again;
    34 bytes for Adam with fp32 gradients and a copy of the weight.
    """
    wide = weight_bytes(layout) == 4.0
    stored = 4.0 if wide or layout.master_weights == MasterWeights.STORED else 0.0
    narrow = 0.0 if wide else weight_bytes(layout)
    gradient = layout.kept_gradient_dtype.size_bytes
    return 2.0 * (trained_state_bytes(layout) + stored + gradient) + narrow
