"""Replacing what belongs to PyTorch while a program is recorded, and putting it back.

Holds `Shim` (a row: what is replaced, and by what), `Shims` (the rows of one file), `applied`
(all of them, for as long as a recording runs) and `replaced`, for one owner.
"""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

from syncwall.capture.state import RecordingState
from syncwall.capture.versions import has, missing

Make = Callable[[RecordingState, Any], Any]
"""Gives what stands in for an original, from the recording and that original."""
_Function = TypeVar("_Function", bound=Callable[..., Any])
_INHERITED = object()


@dataclass(frozen=True)
class Shim:
    """One row: a thing of PyTorch that is replaced."""

    target: str
    """Dotted path: `torch.UntypedStorage.resize_`."""
    make: Make
    everywhere: bool = False
    """True for a function that modules import by name: it is replaced in all of them."""

    @property
    def owner(self) -> Any:
        """The module or class that has it; InputError if this version of PyTorch does not."""
        path = self.target.rpartition(".")[0]
        try:
            return pkgutil.resolve_name(path)
        except (ImportError, AttributeError):
            raise missing(path) from None

    @property
    def name(self) -> str:
        """What its owner calls it."""
        return self.target.rpartition(".")[2]

    @property
    def original(self) -> Any:
        """What it is without the shim."""
        return need(self.owner, self.name)


class Shims:
    """Rows of one file; adding one is decorating a function."""

    def __init__(self) -> None:
        self.rows: list[Shim] = []
        self.surroundings: list[Callable[[RecordingState], AbstractContextManager[None]]] = []

    def wraps(self, *targets: str, everywhere: bool = False) -> Callable[[_Function], _Function]:
        """Call the decorated function, with state and original first, in place of targets."""

        def add(function: _Function) -> _Function:
            self.replaces(dict.fromkeys(targets, wrapper(function)), everywhere=everywhere)
            return function

        return add

    def replaces(self, makes: Mapping[str, Make], *, everywhere: bool = False) -> None:
        """Add a row for each target that this version of PyTorch has."""
        self.rows += [Shim(target, make, everywhere) for target, make in makes.items() if has(target)]

    def surround(self, function: Callable[[RecordingState], Iterator[None]]) -> None:
        """Enter the decorated generator before anything is replaced."""
        self.surroundings.append(contextmanager(function))


def wrapper(function: Callable[..., Any], *given: Any) -> Make:
    """Calls become `function(state, original, *given, ...)`."""

    def make(state: RecordingState, original: Any) -> Any:
        @wraps(original, updated=())  # frameworks read names and signatures
        def instead(*args: Any, **kwargs: Any) -> Any:
            return function(state, original, *given, *args, **kwargs)

        return instead

    return make


def answering(value: Callable[[RecordingState], Any]) -> Make:
    """Calls with any arguments give a value of the recording."""

    def make(state: RecordingState, _: Any) -> Any:
        return lambda *_, **__: value(state)

    return make


@contextmanager
def applied(tables: Iterable[Shims], state: RecordingState) -> Iterator[None]:
    """Everything surrounding a recording, then all rows at once."""
    tables = list(tables)
    with ExitStack() as stack:
        for table in tables:
            for surrounding in table.surroundings:
                stack.enter_context(surrounding(state))
        made = [
            (row, original, row.make(state, original))
            for table in tables
            for row in table.rows
            for original in (row.original,)
        ]
        for row, _, instead in made:
            if not row.everywhere:
                stack.enter_context(replaced(row.owner, **{row.name: instead}))
        functions = {original: instead for row, original, instead in made if row.everywhere}
        stack.enter_context(everywhere(functions))
        yield


def need(owner: object, name: str) -> Any:
    """What `owner` has under a name; InputError if this version of PyTorch has it no more."""
    if not hasattr(owner, name):
        raise missing(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}")
    return getattr(owner, name)


@contextmanager
def replaced(owner: object, **new: Any) -> Iterator[None]:
    """Other values for attributes of a class, module or object for a while."""
    for name in new:
        need(owner, name)
    own = {name: vars(owner).get(name, _INHERITED) for name in new}
    try:
        for name, value in new.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, before in own.items():
            if before is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


@contextmanager
def everywhere(new: Mapping[Any, Any]) -> Iterator[None]:
    """Other functions for a while in every module that has imported them, then or meanwhile."""
    _exchange(new)
    try:
        yield
    finally:
        _exchange({instead: function for function, instead in new.items()})


def _exchange(new: Mapping[Any, Any]) -> None:
    """One look at all modules."""
    by_identity = {id(function): instead for function, instead in new.items()}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            for name, value in list(vars(module).items()):
                if id(value) in by_identity:
                    setattr(module, name, by_identity[id(value)])
