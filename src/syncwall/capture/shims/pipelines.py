"""Pipeline stages learn the shapes that they receive without asking other ranks.

Stages vote, and send each other descriptions of tensors, before the first step; the values never
arrive here. What a stage hands on is kept for the recordings of later ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch.distributed as dist
from torch.distributed.pipelining import schedules, stage

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State, local
from syncwall.problems import InputError
from syncwall.work.block import Phase

_CHUNKS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")

_MESSAGES = {
    "get_fwd_send_ops": Phase.FORWARD, "get_fwd_recv_ops": Phase.FORWARD,
    "get_bwd_send_ops": Phase.BACKWARD, "get_bwd_recv_ops": Phase.BACKWARD,
}  # fmt: skip


@contextmanager
def in_force(state: State) -> Iterator[None]:
    """Shapes come from what earlier stages handed on; calls know their micro batch."""
    pipeline_stage = need(stage, "PipelineStage")
    base = need(stage, "_PipelineStageBase")
    need(pipeline_stage, "_recv_meta")
    need(pipeline_stage, "_send_meta")

    def warmup(_: Any, stages: list[Any], *__: object) -> None:
        for one in stages:
            state.pipeline = tuple(dist.get_process_group_ranks(one.group))
            given = getattr(one, "_user_meta", None)
            is_static = given is not None and bool(given.inputs) and bool(given.outputs)
            modes = stage.InferenceMode
            one._inference_mode = modes.STATIC if is_static else modes.DYNAMIC

    def send_meta(self: Any, meta: Any, dst_stage: int) -> None:
        if dst_stage > self.stage_index:
            state.handed_on[self.stage_index] = meta.forward_metas
            state.sent.add(self.stage_index)

    def recv_meta(self: Any, src_stage: int) -> Any:
        if src_stage > self.stage_index:
            return stage._StageBackwardMeta(
                backward_metas=stage._derive_grad_metas(self._stage_meta.outputs)
            )
        known = [index for index in state.handed_on if index <= src_stage]
        if not known:
            raise InputError.of(
                f"pipeline stage {self.stage_index} receives what only recordings of earlier "
                f"stages know: --ranks {','.join(map(str, state.pipeline))}"
            )
        state.received[src_stage] = state.handed_on[max(known)]
        return stage._StageForwardMeta(forward_metas=state.received[src_stage])

    chunks = {name: _counted(state, need(base, name)) for name in _CHUNKS}
    messages = {
        name: _labelled(state, need(base, name), phase) for name, phase in _MESSAGES.items()
    }
    with (
        replaced(need(schedules, "_PipelineSchedule"), _warmup_p2p=warmup),
        replaced(pipeline_stage, _recv_meta=recv_meta, _send_meta=send_meta),
        replaced(base, **chunks, **messages),
    ):
        yield


def _counted(state: State, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose calls belong to the micro batch that is its first argument."""

    def one_chunk(self: Any, *args: Any, **kwargs: Any) -> Any:
        chunk = kwargs.get("fwd_chunk_id", kwargs.get("bwd_chunk_id", args[0] if args else 0))
        before = state.places.chunk
        state.places.chunk = chunk
        try:
            with nullcontext() if self.is_first else state.batch.not_counted():
                return original(self, *args, **kwargs)
        finally:
            state.places.chunk = before

    return one_chunk


def _labelled(state: State, original: Callable[..., Any], phase: Phase) -> Callable[..., Any]:
    """Messages that are made now and sent later: they belong to a micro batch and a pass."""

    def messages(self: Any, chunk: int, *args: Any, **kwargs: Any) -> Any:
        made = original(self, chunk, *args, **kwargs)
        for message in made:
            number = state.storages.number(local(message.tensor))
            state.mode.labels[number] = chunk, phase
        return made

    return messages
