"""Seconds of a step, from whatever a source measured.

Holds `measured_s`. Sources that print only TFLOP/s are used if the formula behind them is known, or
if it makes no difference: some count the whole square of attention, some the causal half, some the
recomputation.
"""

from math import sqrt

from syncwall.describe import Model
from syncwall.validate.machine import CannotRepresent
from syncwall.validate.row import Row

AMBIGUOUS = 1.15
"""Largest ratio between two readings of a TFLOP/s figure at which it is still used."""


def measured_s(row: Row, model: Model) -> float:
    """Measured seconds of one optimizer step."""
    step = row.number("step_time_s")
    if step:
        return step
    gpus, batch, seq = (row.number(name) or 0.0 for name in ("gpus", "gbs", "seq_len"))
    each = row.number("tokens_per_s_per_gpu")
    rate = each * gpus if each else row.number("tokens_per_s")
    if rate:
        return batch * seq / rate
    samples = row.number("samples_per_s")
    if samples:
        return batch / samples
    reached = row.number("tflops_per_gpu")
    if reached:
        return _flops(row, model) / (reached * 1e12 * gpus)
    raise CannotRepresent("the source gives no step time or rate")


def _flops(row: Row, model: Model) -> float:
    """FLOP of a step as the source counts them."""
    tokens = row.whole("gbs") * row.whole("seq_len")
    again = 4 / 3 if row.text("tflops_kind").startswith("hardware") else 1.0
    causal = _forward_and_backward(row, model, 0.5) * tokens * again
    square = _forward_and_backward(row, model, 1.0) * tokens * again
    formula = row.text("flops_formula").lower()
    if "96*b*s*l" in formula or "num_floating_point" in formula:
        return square
    if "causal" in formula or "half" in formula:
        return causal
    if square / causal > AMBIGUOUS:
        raise CannotRepresent("TFLOP/s without its formula: causal or square attention is open")
    return sqrt(causal * square)


def _forward_and_backward(row: Row, model: Model, share: float) -> float:
    """FLOP of a token: six for every weight, and `share` of the square of attention."""
    count = model.parameter_count
    weights = count.active - count.embedding + (model.vocab * model.hidden) * model.tied_embeddings
    width = model.attention.heads * (model.head_dim + model.v_head_dim)
    return 6.0 * weights + 6.0 * share * model.layers * row.whole("seq_len") * width
