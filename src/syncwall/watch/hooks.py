"""Where a trainer is watched: a function for each part of PyTorch, listed in `HOOKS`.

Nothing here may change what a training computes, synchronise, communicate, or raise.

- Optimizers: the first one that makes a step leads, and its steps are those of the run. With
  several optimizers a step goes from one step of the leading one to its next, whatever the others
  do meanwhile.
- Waiting for communication: on CPUs these calls block, and their time is what is waited. On CUDA
  they only order streams; there the device's clock tells, and only for waits that pass through
  here. What is called on a stream of its own (FSDP2's collectives, pipelines that overlap) is not
  waited for there, and where the training waits for it is not seen: that is noted.
- Backward: DDP reduces gradients while others are computed; what is left when the last one is there
  is exposed. Which parameter that is shows in the first backward passes, with a hook on each of
  them. After that one hook stays.
- Forward: the model is found once, among all modules, when its optimizer has made two steps.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple
from weakref import ref

from syncwall.watch.rings import COLLECTIVES, MarkKind, RingNote
from syncwall.watch.watching import Function, Watching

_CALLS: Final = {
    "all-reduce": "all_reduce all_reduce_coalesced reduce",
    "all-gather": "all_gather all_gather_into_tensor all_gather_single all_gather_object "
    "all_gather_coalesced gather gather_object",
    "reduce-scatter": "reduce_scatter reduce_scatter_tensor reduce_scatter_single",
    "all-to-all": "all_to_all all_to_all_single",
    "broadcast": "broadcast broadcast_object_list scatter scatter_object_list",
    "send-receive": "send recv send_object_list recv_object_list",
    "barrier": "barrier monitored_barrier",
}
"""Functions of `torch.distributed` by what they move; a version need not have all of them."""
_OTHER: Final = COLLECTIVES.index("other")


class Bracket(NamedTuple):
    """A row: a function of PyTorch whose calls stand between two marks."""

    marks: tuple[MarkKind, MarkKind]
    module: str
    """It is waited for, not imported."""
    name: str
    """In the module: `save`, `DataLoader.__iter__`."""
    missing: RingNote | None = None
    """What cannot be told of versions that do not have it."""
    argument: int = 0
    again: str = ""
    """Module that has it a second time."""


_DATA: Final = MarkKind.DATA_BEGIN, MarkKind.DATA_END
_SAVE: Final = MarkKind.SAVE_BEGIN, MarkKind.SAVE_END
_WAIT: Final = MarkKind.WAIT_BEGIN, MarkKind.WAIT_END
_LOADER: Final = "torch.utils.data.dataloader"
_SAVER: Final = "torch.distributed.checkpoint.state_dict_saver"
_C10D: Final = "torch.distributed.distributed_c10d"
_FSDP_GROUP: Final = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
DATA: Final = (
    Bracket(_DATA, _LOADER, "_BaseDataLoaderIter.__next__", RingNote.NO_DATA_LOADER),
    Bracket(_DATA, _LOADER, "DataLoader.__iter__"),  # starts the workers
)
SAVES: Final = (
    Bracket(_SAVE, "torch", "save", RingNote.NO_SAVES),
    Bracket(_SAVE, _SAVER, "save"),
    Bracket(_SAVE, _SAVER, "async_save"),
    Bracket(_SAVE, "safetensors.torch", "save_file"),
)
WAITS: Final = (
    *(
        Bracket(_WAIT, _C10D, name, argument=COLLECTIVES.index(kind), again="torch.distributed")
        for kind, names in _CALLS.items()
        for name in names.split()
    ),
    Bracket(_WAIT, _C10D, "Work.wait", RingNote.NO_WAITS, _OTHER),
    Bracket(
        _WAIT,
        "torch.distributed._functional_collectives",  # of DTensor, so of tensor parallelism
        "wait_tensor",
        RingNote.NO_FUNCTIONAL_WAITS,
        _OTHER,
    ),
    Bracket(
        _WAIT,
        _FSDP_GROUP,
        "FSDPParamGroup.wait_for_unshard",
        RingNote.FSDP_WAITS,
        COLLECTIVES.index("all-gather"),
    ),
)


def attach_brackets(rows: Iterable[Bracket], watching: Watching) -> None:
    """Mark the calls of all rows, once their modules are there."""
    for row in rows:
        watching.patches.when_imported(row.module, partial(_attach_bracket, watching, row))


def _attach_bracket(watching: Watching, row: Bracket, module: ModuleType) -> None:
    within, _, name = row.name.rpartition(".")
    owner = getattr(module, within, None) if within else module
    is_there = watching.patches.replace(owner, name, partial(_between, watching, row), row.again)
    if not is_there and row.missing is not None:
        watching.note(row.missing)


def _between(watching: Watching, row: Bracket, function: Function) -> Function:
    begin, end, argument = *map(int, row.marks), row.argument
    is_wait = row.marks == _WAIT

    def call(*given: Any, **named: Any) -> Any:
        if is_wait and watching.is_on_another_stream:
            watching.note(RingNote.DEVICE_COMMUNICATION)
            return function(*given, **named)
        watching.mark(begin, 0.0, argument)
        try:
            return function(*given, **named)
        finally:
            watching.mark(end)

    return call


def attach_old_fsdp(watching: Watching) -> None:
    """FSDP1 waits inside of streams, which is not seen: that is noted."""

    def made(function: Function) -> Function:
        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            watching.note(RingNote.OLD_FSDP)
            function(self, *given, **named)

        return __init__

    def attach(module: ModuleType) -> None:
        owner = getattr(module, "FullyShardedDataParallel", None)
        watching.patches.replace(owner, "__init__", made)

    watching.patches.when_imported("torch.distributed.fsdp.fully_sharded_data_parallel", attach)


_LEARNED_AFTER: Final = 2
"""Backward passes; DDP makes its buckets anew after the first."""
_MISSED: Final = 8
"""Backward passes without the gradient that came last: others are trained now, learn again."""


def attach_backward(watching: Watching) -> None:
    """Mark `torch.autograd.backward`, the outermost call only."""
    import torch

    begin, end, loss = (int(kind) for kind in (MarkKind.BACKWARD_BEGIN, MarkKind.BACKWARD_END, MarkKind.LOSS))
    last_gradients: list[LastGradient] = []
    depth = 0

    def tell_loss(tensor: Any) -> None:
        if tensor.is_cpu:
            if tensor.numel() == 1 and tensor.is_floating_point():
                watching.mark(loss, tensor.item(), 1)
        elif tensor.is_cuda:  # reading it would wait for the device
            with suppress(Exception):  # the host's clock will do
                watching.time_on_device(
                    lambda: torch.cuda.Event(enable_timing=True), torch.cuda.current_stream
                )

    def marked(function: Function) -> Function:
        def backward(*given: Any, **named: Any) -> Any:
            nonlocal depth
            if depth:  # checkpointed activations: a backward pass inside another
                return function(*given, **named)
            depth = 1
            watching.mark(begin)
            if given and type(given[0]) is torch.Tensor:
                tell_loss(given[0])
            try:
                return function(*given, **named)
            finally:
                depth = 0
                watching.mark(end)
                for one in last_gradients:
                    one.after_backward()

        return backward

    if not watching.patches.replace(torch.autograd, "backward", marked):
        watching.note(RingNote.NO_BACKWARD)
    parallel = getattr(torch.nn.parallel, "DistributedDataParallel", None)

    def made(function: Function) -> Function:
        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            function(self, *given, **named)
            with suppress(Exception):  # the training goes on, whatever this version is like
                last_gradients.append(LastGradient(watching, self))

        return __init__

    if not watching.patches.replace(parallel, "__init__", made):
        watching.note(RingNote.NO_LAST_GRADIENT)
    watching.removers.append(lambda: _forget(last_gradients))


def _forget(last_gradients: "list[LastGradient]") -> None:
    for one in last_gradients:
        one.forget()
    last_gradients.clear()


class LastGradient:
    """The gradient of one DDP module that comes last."""

    def __init__(self, watching: Watching, module: Any) -> None:
        self._watching, self._module = watching, ref(module)
        self._order: list[int] = []
        self._hooks: list[Any] = []
        self._learned = self._missed = 0
        self._seen = False
        self._learn()

    def _learn(self) -> None:
        self.forget()
        self._learned = self._missed = 0
        for number, parameter in enumerate(self._parameters()):
            hook = parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._order.append(number)
            )
            self._hooks.append(hook)

    def _parameters(self) -> list[Any]:
        module = self._module()
        return [one for one in module.parameters() if one.requires_grad] if module else []

    def after_backward(self) -> None:
        """Learn from the order of gradients, or check that the last one still comes."""
        if self._order:
            self._learned += 1
            last = self._order[-1]
            self._order.clear()
            if self._learned == _LEARNED_AFTER:
                self._keep(self._parameters()[last])
        elif self._learned >= _LEARNED_AFTER:
            self._missed = 0 if self._seen else self._missed + 1
            self._seen = False
            if self._missed == _MISSED:
                self._learn()

    def _keep(self, parameter: Any) -> None:
        self.forget()
        watching, kind = self._watching, int(MarkKind.LAST_GRADIENT)

        def arrived(_: Any) -> None:
            self._seen = True
            watching.mark(kind)

        self._hooks.append(parameter.register_post_accumulate_grad_hook(arrived))

    def forget(self) -> None:
        """Take all hooks away."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


_GIVEN_UP: Final = 8
"""Steps of others since the leading optimizer's last: it was one of a warm-up."""


def attach_optimizers(watching: Watching) -> None:
    """Global hooks before and after `step`, and `GradScaler.step`, which may leave a step out."""
    from torch.optim import optimizer as optim

    begin, end, skipped = (
        int(kind) for kind in (MarkKind.OPTIMIZER_BEGIN, MarkKind.OPTIMIZER_END, MarkKind.STEP_SKIPPED)
    )
    leader: int | None = None
    steps = of_others = ended = 0

    def before(*_: Any) -> None:
        watching.mark(begin)

    def after(optimizer: Any, *_: Any) -> None:
        nonlocal leader, steps, of_others, ended
        steps += 1
        if leader is None or of_others >= _GIVEN_UP:
            leader, of_others = id(optimizer), 0
        if id(optimizer) == leader:
            of_others = 0
            watching.mark(end, float(ended), 1)
            ended += 1
        else:
            of_others += 1
            watching.mark(end)
        if id(optimizer) not in watching.optimizers:
            watching.optimizers[id(optimizer)] = optimizer

    try:
        hooks = (
            optim.register_optimizer_step_pre_hook(before),
            optim.register_optimizer_step_post_hook(after),
        )
    except AttributeError:
        watching.note(RingNote.NO_OPTIMIZER_HOOKS)
        return
    watching.removers += [hook.remove for hook in hooks]

    def scaled(function: Function) -> Function:
        def step(self: Any, optimizer: Any, *given: Any, **named: Any) -> Any:
            nonlocal ended
            before_it = steps
            found = function(self, optimizer, *given, **named)
            if steps == before_it and id(optimizer) == leader:
                watching.mark(skipped, float(ended))
                ended += 1
            return found

        return step

    _attach_scaler(watching, scaled)


def _attach_scaler(watching: Watching, scaled: Any) -> None:
    import torch

    scaler = getattr(torch.amp, "GradScaler", None)
    if not watching.patches.replace(scaler, "step", scaled):
        watching.note(RingNote.NO_GRAD_SCALER)


def attach_norms(watching: Watching) -> None:
    """Tell the gradient norm that clipping computes anyway."""
    import torch
    from torch.nn.utils import clip_grad

    kind = int(MarkKind.GRADIENT_NORM)

    def told(function: Function) -> Function:
        def clip_grad_norm_(*given: Any, **named: Any) -> Any:
            norm = function(*given, **named)
            if type(norm) is torch.Tensor and norm.device.type == "cpu":  # else it would wait
                watching.mark(kind, float(norm))
            return norm

        return clip_grad_norm_

    if not watching.patches.replace(clip_grad, "clip_grad_norm_", told):
        watching.note(RingNote.NO_GRADIENT_NORM)
        return
    again = clip_grad.clip_grad_norm_
    watching.patches.replace(torch.nn.utils, "clip_grad_norm_", lambda _: again)


def attach_evaluation(watching: Watching) -> None:
    """Mark `eval`; `train`, which calls itself for every module, only while it is waited for."""
    from torch import nn

    begin, end = int(MarkKind.EVALUATION_BEGIN), int(MarkKind.EVALUATION_END)
    train = nn.Module.train

    def over(self: Any, mode: bool = True) -> Any:
        if mode:
            restore()
            watching.mark(end)
        return train(self, mode)

    def restore() -> None:
        if nn.Module.train is over:
            nn.Module.train = train

    def marked(function: Function) -> Function:
        def evaluates(self: Any) -> Any:
            if nn.Module.train is train and _is_trained(watching, self):
                watching.mark(begin)
                nn.Module.train = over
            return function(self)

        return evaluates

    if not watching.patches.replace(nn.Module, "eval", marked):
        watching.note(RingNote.NO_EVALUATION)
    watching.patches.when_imported(  # whose models have an `eval` of their own
        "transformers.modeling_utils",
        lambda module: watching.patches.replace(module.PreTrainedModel, "eval", marked),
    )
    watching.removers.append(restore)


def _is_trained(watching: Watching, module: Any) -> bool:
    """True if an optimizer that has made a step holds a parameter of the module."""
    held = _trained(watching)
    return bool(held) and any(id(parameter) in held for parameter in module.parameters())


def _trained(watching: Watching) -> set[int]:
    """Parameters of optimizers that have made a step, by `id`."""
    return {
        id(parameter)
        for optimizer in watching.optimizers.values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


_ROOT_AFTER: Final = 2
"""Steps of an optimizer after which its model is looked for; it may be wrapped until then."""


def attach_forward(watching: Watching) -> None:
    """Mark calls of the model that is trained, the outermost module that holds its parameters.

    Its class has its `__call__` replaced: hooks on a module would be saved and copied with it.
    """
    from torch.optim import optimizer as optim

    steps = 0

    def look(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps >= _ROOT_AFTER:
            hook.remove()
            with suppress(Exception):  # the training goes on, whatever this version is like
                _mark_calls(watching)

    hook = optim.register_optimizer_step_post_hook(look)
    watching.removers.append(hook.remove)


def _mark_calls(watching: Watching) -> None:
    found = _trained_root(watching)
    if found is None:
        return
    root, inside = ref(found), False
    begin, end = int(MarkKind.FORWARD_BEGIN), int(MarkKind.FORWARD_END)

    def marked(function: Function) -> Function:
        def __call__(self: Any, *given: Any, **named: Any) -> Any:  # noqa: N807
            nonlocal inside
            if inside or self is not root():
                return function(self, *given, **named)
            inside = True
            watching.mark(begin)
            try:
                return function(self, *given, **named)
            finally:
                inside = False
                watching.mark(end)

        return __call__

    watching.patches.replace(type(found), "__call__", marked)


def _trained_root(watching: Watching) -> Any:
    """The module that no other one contains, with most of the parameters that are trained."""
    import gc

    from torch import nn

    held = _trained(watching)
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]
    inside = {id(child) for one in modules for child in vars(one).get("_modules", {}).values()}
    roots = (one for one in modules if id(one) not in inside)
    sizes = [(sum(p.numel() for p in one.parameters() if id(p) in held), one) for one in roots]
    most, root = max(sizes, key=lambda one: one[0], default=(0, None))
    return root if most else None


HOOKS: Final[dict[str, Callable[[Watching], None]]] = {
    "data": partial(attach_brackets, DATA),
    "backward": attach_backward,
    "optimizers": attach_optimizers,
    "forward": attach_forward,
    "saves": partial(attach_brackets, SAVES),
    "gradient norms": attach_norms,
    "waits": partial(attach_brackets, WAITS),
    "FSDP1": attach_old_fsdp,
    "evaluation": attach_evaluation,
}
"""What attaches to each part of PyTorch, by what it watches."""
