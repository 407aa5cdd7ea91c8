"""What DDP's reducer does, in Python: gradients go into buckets, buckets are all-reduced.

Holds `Reducer` and `Logger`, which stand in for the classes of `torch.distributed` in C++: those
read the values of tensors. Buckets are those of PyTorch's own assignment, in the order in which
gradients arrive from the second step on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable


@dataclass
class _Bucket:
    """Parameters whose gradients are reduced together."""

    parameters: list[int]
    buffer: torch.Tensor
    views: list[torch.Tensor]
    missing: set[int] = field(default_factory=set)
    work: Any = None


class Reducer:
    """Buckets of one model."""

    def __init__(self, *args: Any, **_: Any) -> None:
        parameters, indices, _limits, group = args[:4]
        self.parameters: list[torch.Tensor] = list(parameters)
        self.group = group
        self.bucket_bytes, self.finds_unused, self.keeps_views = args[5:8]
        self.first_bytes = args[9]
        self.compress: torch.dtype | None = None
        self.rebuild_limits: list[int] | None = args[12] if len(args) > 12 else None
        self._expects = False
        self._arrived: list[int] = []
        self._rebuilt = False
        self._next = 0
        self._build(indices)
        for number, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(self._hook(number))

    def _build(self, indices: Sequence[Sequence[int]]) -> None:
        self._buckets = []
        self._bucket_of: dict[int, tuple[_Bucket, int]] = {}
        for group in indices:
            first = self.parameters[group[0]]
            sizes = [self.parameters[number].numel() for number in group]
            with torch.no_grad():
                buffer = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
                parts = buffer.split(sizes)
                views = [
                    part.view(self.parameters[number].shape)
                    for part, number in zip(parts, group, strict=True)
                ]
            bucket = _Bucket(list(group), buffer, views)
            self._buckets.append(bucket)
            for at, number in enumerate(group):
                self._bucket_of[number] = bucket, at

    def _rebuild_buckets(self) -> bool:
        """In the order in which gradients arrived in the first step."""
        if self._rebuilt or not self._arrived or self.finds_unused:
            return False
        arrived = [self.parameters[number] for number in self._arrived]
        limits = self.rebuild_limits or [self.first_bytes, self.bucket_bytes]
        indices, _ = dist._compute_bucket_assignment_by_size(
            arrived, limits, [False] * len(arrived), self._arrived
        )
        self._build(indices)
        self._rebuilt = True
        return True

    def prepare_for_forward(self) -> None:
        """Nothing to do."""

    def prepare_for_backward(self, _: Sequence[torch.Tensor]) -> None:
        """Gradients of the next backward pass are reduced."""
        self._expects = True
        self._next = 0
        for bucket in self._buckets:
            bucket.missing = set(bucket.parameters)
            bucket.work = None

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        def ready(parameter: torch.Tensor) -> None:
            if not self._expects:
                return
            if not any(len(b.missing) < len(b.parameters) for b in self._buckets):
                Variable._execution_engine.queue_callback(self._finish)
            if not self._rebuilt:
                self._arrived.append(number)
            bucket, at = self._bucket_of[number]
            with torch.no_grad():
                self._fill(parameter, bucket.views[at])
                bucket.missing.discard(number)
                self._launch(complete_only=True)

        return ready

    def _fill(self, parameter: torch.Tensor, view: torch.Tensor) -> None:
        """The share of a gradient goes into its bucket."""
        share = 1.0 / self.group.size()
        assert parameter.grad is not None
        if parameter.grad.untyped_storage()._cdata == view.untyped_storage()._cdata:
            view.mul_(share)
            return
        torch.mul(parameter.grad, share, out=view)
        if self.keeps_views:
            parameter.grad = view

    def _launch(self, complete_only: bool) -> None:
        """Reduce buckets in their order, as they fill."""
        while self._next < len(self._buckets):
            bucket = self._buckets[self._next]
            if complete_only and bucket.missing:
                return
            sent = bucket.buffer
            if self.compress is not None and self.compress != sent.dtype:
                sent = sent.to(self.compress)
            bucket.work = sent, self.group.allreduce([sent])
            self._next += 1

    def _finish(self) -> None:
        """At the end of the backward pass gradients come back out of the buckets."""
        with torch.no_grad():
            self._launch(complete_only=False)
            for bucket in self._buckets:
                self._take_out(bucket)
        self._expects = False

    def _take_out(self, bucket: _Bucket) -> None:
        sent, work = bucket.work
        work.wait()
        if sent is not bucket.buffer:
            bucket.buffer.copy_(sent)
        for number, view in zip(bucket.parameters, bucket.views, strict=True):
            gradient = self.parameters[number].grad
            if gradient is not None and not self.keeps_views:
                gradient.copy_(view)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """All else that DDP tells its reducer has no effect here."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class Logger:
    """DDP tells it what it does."""

    def __init__(self, *_: object) -> None:
        pass

    def _get_ddp_logging_data(self) -> SimpleNamespace:
        """What it was told, for whoever asks DDP."""
        return SimpleNamespace(strs_map={}, ints_map={})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: {}
