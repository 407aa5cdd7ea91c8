"""Which layers stand in which pipeline rank.

Holds `LayerCounts` and `RankLayers`, from which the work of a step and its memory are both summed,
and `pipeline_ranks`, the two ranks of which one is the fullest, with `in_flight`.

Sources: Narayanan 2021, Qi 2024 and DeepSeek-V3 (section 3.2.1) for micro batches in flight.
"""

from dataclasses import dataclass

from syncwall.describe import Layout, Model
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.layout import Schedule
from syncwall.work.number import Number, anywhere, least, most, rounded_up, where


@dataclass(frozen=True, slots=True)
class RankLayers:
    """Layers of one pipeline rank, without and with experts."""

    dense: Number
    sparse: Number

    def of(self, kind: LayerKind) -> Number:
        """Layers of one `kind`: its share of those that have experts, or have none, as it does."""
        count = self.sparse if kind.has_experts else self.dense
        return count if kind.alike is None else count * kind.count / kind.alike

    @property
    def total(self) -> Number:
        """All of them."""
        return self.dense + self.sparse

    def times(self, factor: Number) -> "RankLayers":
        """So many times as many of both."""
        return RankLayers(self.dense * factor, self.sparse * factor)

    def plus(self, other: "RankLayers") -> "RankLayers":
        """Those of two stages."""
        return RankLayers(self.dense + other.dense, self.sparse + other.sparse)


@dataclass(frozen=True, slots=True)
class PipelineRank:
    """What one pipeline rank holds."""

    layers: RankLayers
    is_first: bool
    """True for the first, which has the embedding."""
    heads: Number
    """1 where it has the output layer: times that it computes logits for a micro batch."""
    stages: Number
    """Stages whose layers it holds: two with DualPipe, which share the micro batches in flight."""
    micro_batches: Number
    """Micro batches in flight."""


def pipeline_ranks(model: Model, layout: Layout) -> tuple[PipelineRank, PipelineRank]:
    """The first rank, which has the most micro batches in flight, and the last, with the logits.

    With DualPipe the first is the last too: it holds the layers of both. The other is then one in
    the middle, with two stages of the body.
    """
    counts, alone, both_ends = LayerCounts(model, layout), layout.pp == 1, _both_ends(layout)
    middle, stages = both_ends > 0, 1.0 + both_ends
    rounded = rounded_up(counts.body.total - 1e-6) / most(counts.body.total, 1e-9)
    body = counts.body.times(where(middle, 1.0, rounded))  # whole layers; of two stages, one fewer
    dense = where(alone, counts.last.dense, body.dense)
    sparse = where(alone, counts.last.sparse, body.sparse)
    lead = where(alone, 0, model.moe.dense_first if model.moe else 0)
    replaced = least(lead, dense + sparse) * (sparse / most(dense + sparse, 1e-9))
    first = RankLayers(dense + replaced, sparse - replaced).plus(counts.last.times(both_ends))
    last = RankLayers(
        where(middle, counts.body.dense, counts.last.dense),
        where(middle, counts.body.sparse, counts.last.sparse),
    ).times(stages)
    virtual = layout.virtual_stages
    micro = least(1.0 / virtual + layout.pp * (1.0 - 1.0 / virtual), layout.microbatches)
    at_once = in_flight(layout)
    return (
        PipelineRank(first, True, 1.0 * alone + both_ends, stages, at_once),
        PipelineRank(last, False, 1.0 - both_ends, stages, where(middle, at_once, micro)),
    )


def _both_ends(layout: Layout) -> Number:
    """1 where a rank holds the layers of two stages, as many from the end as from the start."""
    return 1.0 * (layout.schedule == Schedule.DUALPIPE) * (layout.pp > 1)


def in_flight(layout: Layout) -> Number:
    """Micro batches whose activations the first pipeline rank keeps at once.

    GPipe keeps all; 1F1B as many as there are stages, ZB-2p twice as many, DualPipe one more;
    interleaving a little more than 1F1B (Narayanan 2021). Without a pipeline it is one, whatever
    the schedule.
    """
    pp, micro = layout.pp, layout.microbatches
    interleaved = pp * (1.0 + (pp - 1.0) / (pp * layout.virtual_stages))
    twice = (layout.schedule == Schedule.ZERO_BUBBLE_2P) & (pp > 1)
    plain = pp * (1.0 + twice) + _both_ends(layout)
    at_once = least(where(layout.schedule == Schedule.INTERLEAVED, interleaved, plain), micro)
    return where((layout.schedule == Schedule.GPIPE) & (pp > 1), micro, at_once)


class LayerCounts:
    """Layers of each kind in each class of pipeline ranks.

    The last rank has the output layer and what predicts further tokens too, so a remainder goes to
    the ranks before it. `body` is the fullest of these; `body_ranks` is how many such ranks hold
    all layers but those of the last. Leading dense layers stand in the first rank, which is then
    not the fullest.
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        last = self._last(model, layout)
        fullest = self._fullest(model, layout, last)
        after_dense = max(model.layers - (model.moe.dense_first if model.moe else 0), 1)
        share = model.moe_layers / after_dense
        sparse = where(layout.pp > 1, last * share, model.moe_layers)
        self.last = RankLayers(last - sparse, sparse)
        self.body = RankLayers(fullest - fullest * share, fullest * share)
        self.body_ranks = (model.layers - last) / where(fullest > 0, fullest, 1.0)

    @staticmethod
    def _fullest(model: Model, layout: Layout, last: Number) -> Number:
        """Layers of the fullest rank before the last."""
        first = layout.first_stage_layers
        if first is None:
            even = (model.layers - last) / most(layout.pp - 1, 1)
            return where(layout.balanced_stages, even, rounded_up(even))
        even = (model.layers - last - first) / most(layout.pp - 2, 1)
        return most(where(layout.balanced_stages, even, rounded_up(even)), first)

    @staticmethod
    def _last(model: Model, layout: Layout) -> Number:
        """Layers of the last rank: all if it is the only one, else what is stated, or a whole
        share, or less by what its ends cost.
        """
        if layout.last_stage_layers is not None:
            return where(layout.pp > 1, layout.last_stage_layers, model.layers)
        share: Number = model.layers // layout.pp
        if layout.first_stage_layers is not None:
            left = model.layers - layout.first_stage_layers
            share = where(layout.pp > 1, left // most(layout.pp - 1, 1), share)
        if not anywhere(layout.balanced_stages):
            return share
        ends = _ends_as_layers(model)
        equal = most((model.layers + ends) / layout.pp - ends, 0.0)
        return where(layout.balanced_stages & (layout.pp > 1), equal, share)


def _ends_as_layers(model: Model) -> float:
    """Layers that cost as much as what the last rank does behind its own.

    The output layer, and for every token predicted further a layer, a projection of two hidden
    states into one (DeepSeek-V3 report, section 2.2) and the output layer again; by parameters at
    work.
    """
    head = model.head_width * model.hidden
    ends = model.vocab * model.hidden + head * (1 - model.tied_embeddings)
    each = (model.active_parameters - ends) / model.layers
    further = each + 2 * model.hidden**2 + head
    return (head + model.mtp_layers * further) / each
