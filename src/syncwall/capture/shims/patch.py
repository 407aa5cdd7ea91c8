"""Replacing what belongs to PyTorch, and putting it back.

Holds `replaced`, `everywhere`, `looked_up` (one look at all modules for many of them), and `need`,
which says that this version of PyTorch lacks something.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import torch

from syncwall.problems import InputError


def need(owner: object, name: str) -> Any:
    """What `owner` has under a name; InputError if this version of PyTorch has it no more."""
    if not hasattr(owner, name):
        of = getattr(owner, "__name__", type(owner).__name__)
        raise InputError.of(
            f"PyTorch {torch.__version__} has no {of}.{name}: recording was written for 2.13"
        )
    return getattr(owner, name)


@contextmanager
def replaced(owner: object, **new: Any) -> Iterator[None]:
    """Other values for attributes of a class or module for a while."""
    own = {name: vars(owner).get(name, _INHERITED) for name in new}
    for name in new:
        need(owner, name)
    try:
        for name, value in new.items():
            setattr(owner, name, value)
        if _looked_up is not None:
            _looked_up.forget(owner)
        yield
    finally:
        for name, before in own.items():
            if before is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        if _looked_up is not None:
            _looked_up.forget(owner)


@contextmanager
def everywhere(new: dict[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Other functions for a while in every module that has imported them, then or meanwhile."""
    for function, instead in new.items():
        with suppress(AttributeError):  # others replace it once more, by its name
            instead.__name__ = function.__name__
    back = {instead: function for function, instead in new.items()}
    _exchange(new)
    _KNOWN.update({id(function): function for function in (*new, *back)})
    try:
        yield
    finally:
        _exchange(back)
        for instead in back:
            del _KNOWN[id(instead)]


_KNOWN: dict[int, Callable[..., Any]] = {}
"""Functions that were ever replaced, and what stands in for them now, by their identity."""


def _exchange(new: dict[Callable[..., Any], Callable[..., Any]]) -> None:
    wanted = {id(function) for function in new}
    places = _looked_up
    if places is None or not wanted <= places.wanted:
        places = _Places(wanted)
    places.look()
    for function, instead in new.items():
        for module, name in places.of[id(function)]:
            if vars(module).get(name) is function:
                setattr(module, name, instead)


class _Places:
    """Modules and names under which some functions are found."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.of: defaultdict[int, list[tuple[ModuleType, str]]] = defaultdict(list)
        self._seen: set[int] = set()

    def forget(self, module: object) -> None:
        """It has been changed."""
        self._seen.discard(id(module))

    def look(self) -> None:
        """Look at all modules that are new or have been changed."""
        for module in list(sys.modules.values()):
            if id(module) in self._seen or not isinstance(module, ModuleType):
                continue
            self._seen.add(id(module))
            for name, value in list(vars(module).items()):
                if id(value) in self.wanted:
                    self.of[id(value)].append((module, name))


_looked_up: _Places | None = None
"""What modules hold, while nobody but shims changes it."""


@contextmanager
def looked_up() -> Iterator[None]:
    """One look at all modules for all shims that are put in force, or taken back, inside."""
    global _looked_up  # noqa: PLW0603 - so are the modules of a process
    _looked_up = _Places(set(_KNOWN))
    try:
        yield
    finally:
        _looked_up = None


_INHERITED = object()
