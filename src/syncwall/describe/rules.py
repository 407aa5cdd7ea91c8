"""Which layouts are possible for a model, and why not.

Holds `broken_rules` (the reasons, for one layout) and `possible` (a mask over arrays of layouts),
and `not_offered` and `offered`, the same for what a framework can run. Both walk through the same
conditions, which are arithmetic that broadcasts.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

from syncwall.describe.choice import Dtype
from syncwall.describe.layer_kinds import Stack
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.model import Model
from syncwall.describe.software import Framework, Software, at, may_overlap_ep
from syncwall.describe.switches import WIDE, Optimizer

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


def not_offered(
    family: Framework, software: Software | None, layout: Layout, model: Model | None = None
) -> dict[str, str]:
    """What of one resolved `layout` the framework cannot run: field and reason.

    Some frameworks ask for more by what the `model` is.
    """
    rules = _offers(family, software or Software(), layout, model)
    return {field: says.format(f=family, l=layout) for field, holds, says in rules if not holds}


def offered(
    family: Framework,
    software: Software,
    layouts: Layout,
    insisted: Collection[str] = (),
    model: Model | None = None,
) -> Any:
    """True where the framework can run the resolved `layouts`.

    What somebody `insisted` on is taken for possible.
    """
    mask: Any = True
    for field, holds, _ in _offers(family, software, layouts, model):
        if field not in insisted:
            mask = mask & holds
    return mask


def _offers(f: Framework, software: Software, l: Any, m: Model | None) -> Iterator[LayoutRule]:  # noqa: E741
    date, has_no = software.date, "{f.name} has no "
    shards, recomputes = f.available(f.shards, date), f.available(f.recomputes, date)
    yield "shard", _among(l.shard, shards) | (l.dp * l.cp == 1), has_no + "{l.shard.text}"
    partial = _among(l.shard, f.partial_shards) | (l.shard_degree == l.dp * l.cp)
    yield "shard_degree", partial, has_no + "shard_degree with {l.shard.text}"
    yield "schedule", _among(l.schedule, f.schedules) | (l.pp == 1), has_no + "schedule {l.schedule.text}"
    yield "recompute", _among(l.recompute, recomputes), has_no + "recomputation {l.recompute.text}"
    yield "cp_kind", _among(l.cp_kind, f.cp_kinds) | (l.cp == 1), has_no + "cp_kind {l.cp_kind.text}"
    if f.tp_needs_sp or (f.experts_need_sp and m is not None and m.moe is not None):
        yield "sp", (l.tp > 1) <= l.sp, has_no + "tensor parallelism without sp"
    if f.shards_hold_cp:
        yield "shard", (l.shard != Shard.DDP) | (l.cp == 1), has_no + "ddp with cp"
        yield "shard_degree", l.shard_degree % l.cp == 0, has_no + "shard_degree that cp does not divide"
    yield from _switch_offers(f, l)
    yield "async_tp", l.async_tp <= at(f.async_tp, date), has_no + "async_tp; overlap_tp is its async TP"
    sends = _among(l.dispatcher, at(f.dispatchers, date)) | (l.ep == 1)
    yield "dispatcher", sends, has_no + "dispatcher {l.dispatcher.text}"
    further = 0 if m is None else m.mtp_layers
    overlaps = l.overlap_ep <= may_overlap_ep(f, date, l, further)
    yield "overlap_ep", overlaps, "{f.name} cannot exchange tokens beside computation in this layout"
    if f.checks is not None:
        yield from CHECKS[f.checks](l, m, software)


def _switch_offers(family: Framework, l: Any) -> Iterator[LayoutRule]:  # noqa: E741
    sharded = l.shard != Shard.DDP
    if not family.overlap_sharded_gradients:
        reduces = l.overlap_gradients <= (l.shard == Shard.DDP)
        yield "overlap_gradients", reduces, "{f.name} reduces sharded gradients after the backward pass"
    acts = {"overlap_tp": l.tp > 1, "overlap_parameters": sharded}
    for switch, other in family.needs.items():
        holds = (getattr(l, switch) & acts.get(switch, True)) <= getattr(l, other)
        yield switch, holds, f"{{f.name}} needs {other} for {switch}"


def _megatron_checks(l: Any, m: Model | None, software: Software) -> Iterator[LayoutRule]:  # noqa: E741
    """Those of `TransformerConfig` of Megatron-Core 0.16.1 and of `validate_args` of Megatron-LM."""
    layers = None if m is None else m.layers
    if l.offload_layers:
        alone = (l.pp == 1) & (l.recompute == Recompute.NONE) & (layers is None or l.offload_layers < layers)
        yield "offload_layers", alone, "{f.name} offloads layers without a pipeline and recomputation only"
    sharded = (l.shard != Shard.DDP) & (l.optimizer == Optimizer.ADAM)
    narrow = {"moment_dtype": l.moment_dtype != Dtype.FP32, "offload_optimizer": l.offload_optimizer}
    for field, other in narrow.items():
        yield field, not other or sharded, f"{{f.name}} needs Adam and a distributed optimizer for {field}"
    plain = l.optimizer != Optimizer.MUON or (l.shard <= Shard.ZERO1)
    yield "optimizer", plain, "{f.name} has no Muon with its FSDP"
    some = l.recompute == Recompute.SELECTIVE
    if m is not None:
        latent, experts = m.attention.latent is not None, m.moe is not None
        lacking = {"mla_up_proj": not latent, "moe_act": not experts}
        missing = [name for name in l.recompute_modules if lacking.get(name)]
        yield "recompute_modules", some <= (not missing), f"the model has no {' and '.join(missing)}"
    if layers is None:
        return
    if l.recompute_layers is not None:
        even = (l.recompute_layers * l.pp >= layers) | (l.recompute_layers % l.virtual_stages == 0)
        says = "{f.name} recomputes equally many layers of each virtual stage"
        yield "recompute_layers", (l.recompute != Recompute.FULL) | even, says
    if l.precision in (Dtype.FP8, Dtype.MXFP8):
        for field in WIDE:
            says = f"{{f.name}} keeps no more {field} than a pipeline stage has layers"
            yield field, getattr(l, field) <= layers // l.pp, says
    ends = [one for one in (l.first_stage_layers, l.last_stage_layers) if one is not None]
    if ends:
        between, ranks = layers - sum(ends), (l.pp > len(ends)) * (l.pp - len(ends))
        each = between // (ranks + (ranks == 0))
        even = (each * ranks == between) & (each % l.virtual_stages == 0)
        for one in ends:
            even = even & (one > 0) & (one % l.virtual_stages == 0)
        yield "first_stage_layers", (l.pp == 1) | even, "{f.name} deals the other layers out evenly only"


def _torchtitan_checks(l: Any, m: Model | None, software: Software) -> Iterator[LayoutRule]:  # noqa: E741
    """Those of its configurations and of the mesh that it builds."""
    sharing = (l.shard != Shard.DDP) * l.shard_degree + (l.shard == Shard.DDP)
    holds = (sharing * l.tp) % (l.ep * l.etp) == 0
    yield "ep", holds, "{f.name} spreads experts over the ranks that share one copy of the weights"
    compiled = software.kernels != "eager"
    yield "overlap_tp", (l.overlap_tp & (l.tp > 1)) <= compiled, "{f.name} needs torch.compile for async TP"


def _accelerate_checks(l: Any, m: Model | None, software: Software) -> Iterator[LayoutRule]:  # noqa: E741
    """Those of `ParallelismConfig`."""
    shares = (l.shard == Shard.DDP) | (l.dp * l.cp > 1) | (l.tp == 1)
    yield "shard", shares, "accelerate has no {l.shard.text} with tp alone"
    copied = (l.shard != Shard.DDP) & (l.shard_degree < l.dp * l.cp) & ((l.tp > 1) | (l.cp > 1))
    says = "accelerate copies what at least two data-parallel ranks share, beside tp and cp"
    yield "shard_degree", copied <= (l.shard_degree > l.cp), says


def _deepspeed_checks(l: Any, m: Model | None, software: Software) -> Iterator[LayoutRule]:  # noqa: E741
    """Those of AutoTP."""
    yield "sp", (l.sp & (l.tp > 1)) <= (l.tp == 1), "{f.name}'s AutoTP has no sp"
    yield "pp", (l.tp == 1) | (l.pp == 1), "{f.name} has no AutoTP in a pipeline"


CHECKS: Final = {
    "deepspeed": _deepspeed_checks,
    "megatron-core": _megatron_checks,
    "torchtitan": _torchtitan_checks,
    "accelerate": _accelerate_checks,
}
"""What frameworks check when they read their settings, by `Framework.checks`."""


def _among(value: Any, some: Sequence[Any]) -> Any:
    return reduce(or_, (value == one for one in some), False)
