"""Which layouts are possible for a model, and why not.

Holds `broken_rules` (the reasons, for one layout) and `possible` (a mask over arrays of layouts),
and `not_offered` and `offered`, the same for what a framework can run. Both walk through the same
conditions, which are arithmetic that broadcasts.
"""

from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_
from typing import Any

from syncwall.describe.choice import Dtype
from syncwall.describe.layer_kinds import Stack
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.model import Model
from syncwall.describe.software import Framework, Month, at

# Field to blame, condition that must hold, and what to say if it does not.
LayoutRule = tuple[str, Any, str]


def broken_rules(model: Model, layout: Layout, seq: int, gpus: int) -> list[tuple[str, str]]:
    """Field and reason of every rule that the resolved `layout` breaks; empty if none."""
    return [
        (field, says.format(l=layout, m=model, seq=seq, gpus=gpus))
        for field, holds, says in _rules(model, layout, seq, gpus)
        if not holds
    ]


def possible(model: Model, layouts: Layout, seq: Any, gpus: Any) -> Any:
    """True where the resolved `layouts` break no rule; one value, or an array of them."""
    mask: Any = True
    for _, holds, _ in _rules(model, layouts, seq, gpus):
        mask = mask & holds
    return mask


def _rules(m: Model, l: Any, seq: Any, gpus: Any) -> Iterator[LayoutRule]:  # noqa: E741 - short here
    """Every rule, `l` a resolved `Layout`; `<=` between booleans reads "implies"."""
    yield (
        "dp",
        l.gpus == gpus,
        "tp {l.tp} x cp {l.cp} x pp {l.pp} x dp {l.dp} = {l.gpus}, not the {gpus} GPUs in use",
    )
    yield (
        "global_batch",
        l.global_batch % (l.micro_batch * l.dp) == 0,
        "global_batch {l.global_batch} is not a multiple of micro_batch {l.micro_batch} x dp {l.dp}",
    )
    if m.stack is not None:
        yield from _stack_rules(m.stack, l)
        yield from _shard_rules(l)
        return
    yield from _tensor_rules(m, l)
    yield from _sequence_rules(m, l, seq)
    yield from _pipeline_rules(m, l)
    yield from _expert_rules(m, l)
    yield from _encoder_rules(m, l)
    yield from _frozen_rules(m, l)
    yield from _image_rules(m, l, seq)
    yield from _shard_rules(l)


def _stack_rules(stack: Stack, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    """Nothing is known of what is inside of a layer, nor of what skips to a later one."""
    for axis in ("tp", "cp", "pp", "ep", "etp"):
        says = f"{axis} {{l.{axis}}}: layers of a stack are not cut; use dp with any shard"
        yield axis, getattr(l, axis) == 1, says
    yield "sp", l.sp <= (l.tp > 1), "sp splits work along tp: it needs tp above 1"
    yield (
        "virtual_stages",
        (l.virtual_stages == 1) & (l.schedule != Schedule.INTERLEAVED),
        "virtual_stages are of a pipeline: layers of a stack are not cut into one",
    )
    known = all(one.output_bytes is not None for one in stack)
    yield (
        "recompute",
        (l.recompute == Recompute.NONE) | ((l.recompute == Recompute.FULL) & known),
        "recompute: of a stack whole layers can be computed again (full), if every one states its `output`",
    )
    yield "lora", l.lora is None, "adapters of a stack are not described: it has no named matrices"
    yield "offload_layers", l.offload_layers == 0, "layers of a stack are not offloaded"
    yield "document_tokens", l.document_tokens is None, "samples of a stack have no documents"
    named = not (l.frozen or l.frozen_layers)
    yield "frozen", named, "frozen parts of a stack are not described: all of it is trained"
    yield "images", l.images is None, "images: the model has no encoder"
    wide = l.precision.size_bytes >= Dtype.BF16.size_bytes
    yield "precision", wide, "precision {l.precision}: what of a stack is narrow is not known"


def _tensor_rules(m: Model, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    if m.attention_layers:
        yield (
            "tp",
            m.attention.heads % l.tp == 0,
            "tp {l.tp} does not divide {m.attention.heads} attention heads",
        )
        yield (
            "tp",
            (m.kv_heads % l.tp == 0) | (l.tp % m.kv_heads == 0),
            "tp {l.tp} does not fit {m.kv_heads} key and value heads",
        )
    if m.mixer is not None:
        yield (
            "tp",
            m.mixer.heads % (l.tp * l.cp) == 0,
            "tp {l.tp} x cp {l.cp} does not divide the {m.mixer.heads} heads of mixers",
        )
    if m.mlp is not None:
        yield (
            "tp",
            m.mlp.hidden % l.tp == 0,
            "tp {l.tp} does not divide the feed-forward width {m.mlp.hidden}",
        )
    yield "sp", l.sp <= (l.tp > 1), "sp splits work along tp: it needs tp above 1"


def _sequence_rules(m: Model, l: Any, seq: Any) -> Iterator[LayoutRule]:  # noqa: E741
    yield "cp", seq % l.cp == 0, "cp {l.cp} does not divide the sequence of {seq} tokens"
    yield (
        "cp_kind",
        (l.cp_kind == ContextKind.ULYSSES) <= (m.attention.heads % (l.cp * l.tp) == 0),
        "ulysses with cp {l.cp} x tp {l.tp} does not divide {m.attention.heads} attention heads",
    )


def _pipeline_rules(m: Model, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    yield (
        "pp",
        l.pp * l.virtual_stages <= m.layers + 2,  # embedding and output layer may count
        "pp {l.pp} x virtual_stages {l.virtual_stages} is more than {m.layers} layers,"
        " embedding and output layer",
    )
    yield (
        "virtual_stages",
        (l.virtual_stages > 1) == (l.schedule == Schedule.INTERLEAVED),
        "virtual_stages above 1 and schedule interleaved go together",
    )
    yield (
        "virtual_stages",
        (l.virtual_stages > 1) <= ((l.pp > 1) & (l.microbatches % l.pp == 0)),
        "interleaving needs a pp above 1 that divides the {l.microbatches} micro batches",
    )
    yield (
        "schedule",
        (l.schedule == Schedule.DUALPIPE) <= (l.pp == 1) | (l.pp % 2 == 0),
        "dualpipe feeds a pipeline from both ends: it needs an even pp, not {l.pp}",
    )
    ends = (l.first_stage_layers or 0) + (l.last_stage_layers or 0)
    between = (l.pp > 2) | (ends == m.layers) | _one_end_is_open(l)
    yield (
        "last_stage_layers",
        (l.pp == 1) | ((ends <= m.layers) & between),
        "first_stage_layers {l.first_stage_layers} and last_stage_layers {l.last_stage_layers} do"
        " not add up to {m.layers} layers on {l.pp} stages",
    )


def _one_end_is_open(l: Any) -> bool:  # noqa: E741
    return l.first_stage_layers is None or l.last_stage_layers is None


def _expert_rules(m: Model, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    if l.lora is not None:
        yield (
            "lora",
            m.moe is None or l.lora.names_attention_only,
            "adapters of experts are not described: write targets: [attention]",
        )
    if m.moe is None:
        yield "ep", (l.ep == 1) & (l.etp == 1), "ep and etp are for models with experts"
        return
    yield ("ep", m.moe.experts % l.ep == 0, "ep {l.ep} does not divide {m.moe.experts} experts")
    yield (
        "ep",
        (l.tp * l.cp * l.dp) % (l.ep * l.etp) == 0,
        "ep {l.ep} x etp {l.etp} does not divide tp {l.tp} x cp {l.cp} x dp {l.dp}",
    )
    yield (
        "etp",
        m.moe.hidden % l.etp == 0,
        "etp {l.etp} does not divide the expert width {m.moe.hidden}",
    )


def _encoder_rules(m: Model, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    if m.encoder is None:
        return
    alone = "{l.%s}: a model with an encoder in front is described without it"
    yield "pp", l.pp == 1, f"pp {alone % 'pp'}"
    yield "cp", l.cp == 1, f"cp {alone % 'cp'}"
    yield (
        "tp",
        m.encoder.attention.heads % l.tp == 0,
        "tp {l.tp} does not divide {m.encoder.attention.heads} attention heads of the encoder",
    )


def _frozen_rules(m: Model, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    parts = {"decoder"} if m.encoder is None else {"decoder", "encoder"}
    if m.encoder is not None and m.encoder.projector is not None:
        parts.add("projector")
    missing = sorted({*l.frozen} - parts)
    yield "frozen", not missing, f"frozen {', '.join(missing)}: the model has none"
    fixed = {*l.frozen} | ({"encoder"} if m.encoder is not None and m.encoder.frozen else set())
    yield "frozen", not parts <= fixed, "every part of the model is frozen: nothing is trained"
    decoder = bool(l.frozen_layers) or "decoder" in l.frozen
    both = "frozen_layers and a frozen decoder: leave out one"
    yield "frozen_layers", not (l.frozen_layers and "decoder" in l.frozen), both
    adapters = "only adapters of the decoder are trained: leave out frozen_layers and the decoder"
    yield "frozen", not (l.frozen_weights and decoder), adapters
    if not l.frozen_layers:
        return
    too_many = "frozen_layers {l.frozen_layers} of only {m.layers} layers"
    yield "frozen_layers", l.frozen_layers <= m.layers, too_many
    alone = "frozen_layers {l.frozen_layers} is described without %s"
    yield "frozen_layers", l.pp == 1, alone % "a pipeline"
    in_bf16 = l.first_layers_bf16 + l.last_layers_bf16
    yield "frozen_layers", not in_bf16, alone % "layers in bf16 among narrower ones"


def _image_rules(m: Model, l: Any, seq: Any) -> Iterator[LayoutRule]:  # noqa: E741
    yield "images", l.images is None or m.encoder is not None, "images: the model has no encoder"
    if m.encoder is None:
        return
    tokens = (l.images or m.encoder.each) * m.encoder.given_tokens
    room = f"{tokens:,} tokens of images do not fit a sequence of {{seq:,}}: fewer images, more seq"
    yield "images", tokens <= seq, room


def _shard_rules(l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    whole = l.dp * l.cp
    yield (
        "shard_degree",
        whole % l.shard_degree == 0,
        "shard_degree {l.shard_degree} does not divide dp {l.dp} x cp {l.cp}",
    )
    yield (
        "shard_degree",
        (l.shard == Shard.DDP) <= (l.shard_degree == whole),
        "shard_degree needs shard zero1, zero2 or fsdp",
    )
    few = l.reshard_after_forward
    if few is not None and not isinstance(few, bool):
        yield (
            "reshard_after_forward",
            (l.shard != Shard.FSDP) | (l.shard_degree % few == 0),
            "reshard_after_forward {l.reshard_after_forward} does not divide shard_degree {l.shard_degree}",
        )
    yield from _host_rules(l)
    if l.outer_every is not None:
        several = (l.shard == Shard.DDP) | (l.shard_degree != whole)
        yield (
            "outer_every",
            several | (whole == 1) | (l.outer_every == 1),
            "outer_every {l.outer_every}: all ranks share one copy of the states, so there are no "
            "replicas to synchronise; use shard ddp, or a shard_degree below dp x cp",
        )


def _host_rules(l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    yield (
        "offload_weights",
        l.offload_weights <= ((l.shard == Shard.FSDP) & (l.pp == 1)),
        "offload_weights copies unit by unit: it needs shard fsdp (ZeRO-3) and no pipeline",
    )
    at_once = ((l.shard >= Shard.ZERO2) | (l.dp * l.cp == 1)) & (l.pp == 1)
    yield (
        "offload_gradients",
        l.offload_gradients <= (at_once & l.offload_optimizer),
        "offload_gradients needs offload_optimizer, shard zero2 or fsdp, and no pipeline",
    )


def can_share(m: Model, l: Any) -> Any:  # noqa: E741
    """True where there is anybody to share states with: replicas of the model or of experts."""
    together = l.dp * l.cp > 1
    return together if m.moe is None else together | (l.expert_dp > 1)


def not_offered(family: Framework, date: Month | None, layout: Layout, *, experts: bool = False) -> set[str]:
    """What of one resolved `layout` the framework of that `date` cannot run, by field.

    Some frameworks ask for more where the model has `experts`.
    """
    return {field for field, holds in _offers(family, date, layout, experts) if not holds}


def offered(
    family: Framework,
    date: Month | None,
    layouts: Layout,
    insisted: Collection[str] = (),
    *,
    experts: bool = False,
) -> Any:
    """True where the framework of that `date` can run the resolved `layouts`.

    What somebody `insisted` on is taken for possible.
    """
    mask: Any = True
    for field, holds in _offers(family, date, layouts, experts):
        if field not in insisted:
            mask = mask & holds
    return mask


Condition = tuple[str, Any]
"""Field to blame, and condition that must hold."""


def _offers(family: Framework, date: Month | None, l: Any, experts: bool) -> Iterator[Condition]:  # noqa: E741
    yield "shard", _among(l.shard, family.shards) | (l.dp * l.cp == 1)
    yield "schedule", _among(l.schedule, family.schedules) | (l.pp == 1)
    yield "recompute", _among(l.recompute, family.recomputes)
    yield "cp_kind", _among(l.cp_kind, family.cp_kinds) | (l.cp == 1)
    if family.tp_needs_sp or (experts and family.experts_need_sp):
        yield "sp", (l.tp > 1) <= l.sp
    if family.shards_hold_cp:
        yield "shard", (l.shard != Shard.DDP) | (l.cp == 1)
        yield "shard_degree", l.shard_degree % l.cp == 0
    yield from _switch_offers(family, l)
    yield "async_tp", l.async_tp <= at(family.async_tp, date)
    yield "dispatcher", _among(l.dispatcher, at(family.dispatchers, date)) | (l.ep == 1)
    yield "overlap_ep", l.overlap_ep <= at(family.offers_overlap_ep, date)
    # what is exchanged beside another micro batch must not wait for recomputation
    yield "overlap_ep", l.overlap_ep <= (l.recompute != Recompute.FULL)


def _switch_offers(family: Framework, l: Any) -> Iterator[Condition]:  # noqa: E741
    sharded = l.shard != Shard.DDP
    if not family.overlap_sharded_gradients:
        yield "overlap_gradients", l.overlap_gradients <= (l.shard == Shard.DDP)
    acts = {"overlap_tp": l.tp > 1, "overlap_parameters": sharded}
    for switch, other in family.needs.items():
        yield switch, (getattr(l, switch) & acts.get(switch, True)) <= getattr(l, other)


def _among(value: Any, some: tuple[Any, ...]) -> Any:
    return reduce(or_, (value == one for one in some), False)
