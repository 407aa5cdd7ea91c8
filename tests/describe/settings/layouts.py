"""Random layouts, and those that each format has words for."""

from typing import Any

from hypothesis import strategies as st

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from tests.describe.samples import MOE, model

MODEL = model(layers=30, attention={"heads": 64, "kv_heads": 64}, mlp=None, moe=MOE)
SEQ = 4096
UNWRITTEN = (Schedule.ZERO_BUBBLE_2P, Schedule.DUALPIPE)
"""Schedules that torchtitan has no word for."""
_SMALL = st.sampled_from([1, 2, 4])
_SENT = st.sampled_from([Dispatcher.ALL_TO_ALL, Dispatcher.DEEPEP])


@st.composite
def layouts(draw: st.DrawFn, /, **fixed: st.SearchStrategy[Any]) -> Layout:
    """A resolved layout that is possible for `MODEL`; `fixed` fields are drawn from these."""

    def pick(name: str, strategy: st.SearchStrategy[Any]) -> Any:
        return draw(fixed.get(name, strategy))

    tp, cp, pp, dp = pick("tp", _SMALL), pick("cp", _SMALL), pick("pp", _SMALL), draw(_SMALL)
    shard = pick("shard", st.sampled_from(Shard))
    whole = dp * cp
    copies = 1 if shard == Shard.DDP else draw(st.sampled_from([1, 2]))
    if whole // copies < 2 or dp % copies:
        copies = 1
    shard = Shard.DDP if whole == 1 else shard
    micro, accumulated = draw(_SMALL), pp * draw(_SMALL)
    kinds = st.sampled_from(Schedule) if pp > 1 else st.just(Schedule.ONE_F_ONE_B)
    schedule = pick("schedule", kinds) if pp > 1 else Schedule.ONE_F_ONE_B
    virtual = draw(st.sampled_from([2, 4])) if schedule == Schedule.INTERLEAVED else 1
    recompute = pick("recompute", st.sampled_from(Recompute))
    some = st.sampled_from([None, virtual, 2 * virtual]) if recompute else st.none()
    experts = pick("ep", st.sampled_from([1, 2]))
    experts = experts if (tp * cp * dp) % experts == 0 else 1
    precision = pick("precision", st.sampled_from([Dtype.BF16, Dtype.FP16, Dtype.FP32, Dtype.FP8]))
    return Layout(
        dp=dp,
        tp=tp,
        cp=cp,
        pp=pp,
        shard=shard,
        shard_degree=whole // copies,
        sp=pick("sp", st.booleans()) if tp > 1 else False,
        schedule=schedule,
        virtual_stages=virtual,
        balanced_stages=pick("balanced_stages", st.booleans()) if pp > 1 else False,
        cp_kind=pick("cp_kind", st.sampled_from(ContextKind)) if cp > 1 else ContextKind.RING,
        ep=experts,
        etp=pick("etp", st.sampled_from([1, tp])) if experts == 1 else 1,
        micro_batch=micro,
        global_batch=micro * accumulated * dp,
        precision=precision,
        gradient_dtype=pick("gradient_dtype", st.sampled_from([Dtype.BF16, Dtype.FP32])),
        recompute=recompute,
        recompute_layers=pick("recompute_layers", some),
        overlap_gradients=pick("overlap_gradients", st.booleans()),
        overlap_parameters=pick("overlap_parameters", st.booleans()),
        overlap_tp=pick("overlap_tp", st.booleans()) if tp > 1 else False,
        overlap_ep=pick("overlap_ep", st.booleans()) if experts > 1 else False,
        dispatcher=pick("dispatcher", _SENT) if experts > 1 else Dispatcher.ALL_TO_ALL,
        overlap_pp=pick("overlap_pp", st.booleans()) if pp > 1 else True,
    )


_ON, _OFF = st.just(True), st.just(False)
_NONE = st.none()

SAYABLE: dict[str, st.SearchStrategy[Layout]] = {
    "torchtitan": layouts(
        shard=st.sampled_from([Shard.ZERO2, Shard.FSDP]),
        sp=_ON,
        schedule=st.sampled_from([s for s in Schedule if s not in UNWRITTEN]),
        cp_kind=st.sampled_from([ContextKind.RING, ContextKind.ALL_GATHER]),
        recompute=st.sampled_from([Recompute.NONE, Recompute.OPERATIONS, Recompute.FULL]),
        recompute_layers=_NONE,
        precision=st.sampled_from([Dtype.BF16, Dtype.FP32, Dtype.FP8, Dtype.MXFP8]),
        gradient_dtype=st.just(Dtype.FP32),
        overlap_gradients=_ON,
        overlap_parameters=_ON,
        overlap_pp=_ON,
        overlap_ep=_OFF,
        balanced_stages=_OFF,
    ).filter(lambda one: one.ep == 1 or one.schedule != Schedule.DUALPIPE_V or one.pp == 1),
    "megatron": layouts(
        sp=_ON,
        schedule=st.sampled_from([Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED]),
        balanced_stages=st.booleans(),
        recompute=st.sampled_from([Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL]),
        overlap_gradients=_ON,
        overlap_ep=_OFF,
        precision=st.sampled_from([Dtype.BF16, Dtype.FP8, Dtype.MXFP8, Dtype.NVFP4]),
        overlap_pp=_ON,
    ).filter(lambda one: one.recompute == Recompute.FULL or one.recompute_layers is None),
    "deepspeed": layouts(
        pp=st.just(1),
        ep=st.just(1),
        etp=st.just(1),
        cp=st.just(1),
        sp=_OFF,
        overlap_parameters=_ON,
        overlap_gradients=_ON,
        overlap_tp=_OFF,
        recompute_layers=_NONE,
        precision=st.sampled_from([Dtype.BF16, Dtype.FP16, Dtype.FP32]),
    ).filter(lambda one: one.shard_degree == one.dp),
    "accelerate": layouts(
        pp=st.just(1),
        ep=st.just(1),
        etp=st.just(1),
        sp=_OFF,
        shard=st.sampled_from([Shard.ZERO2, Shard.FSDP]),
        recompute=st.sampled_from([Recompute.NONE, Recompute.FULL]),
        recompute_layers=_NONE,
        overlap_parameters=_ON,
        overlap_gradients=_ON,
        overlap_tp=_OFF,
        precision=st.sampled_from([Dtype.BF16, Dtype.FP8]),
        gradient_dtype=st.just(Dtype.BF16),
    ).filter(lambda one: one.shard != Shard.DDP),
}
"""Layouts for which nothing has to be said beside the settings, but for `IN_THE_SCRIPT`."""

IN_THE_SCRIPT = {
    "torchtitan": set[str](),
    "megatron": set[str](),
    "deepspeed": {"recompute", "seq"},
    "accelerate": {"micro_batch", "global_batch", "seq"},
}
"""What DeepSpeed and accelerate leave to the training script."""
