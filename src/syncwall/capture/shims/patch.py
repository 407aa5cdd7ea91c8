"""Replacing what belongs to PyTorch, and putting it back.

Holds `replaced`, `everywhere`, and `need`, which says that this version of PyTorch lacks something.
"""

import sys
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
        yield
    finally:
        for name, before in own.items():
            if before is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


@contextmanager
def everywhere(new: dict[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Other functions for a while in every module that has imported them, then or meanwhile."""
    for function, instead in new.items():
        with suppress(AttributeError):  # others replace it once more, by its name
            instead.__name__ = function.__name__
    _exchange({id(function): function for function in new}, new)
    try:
        yield
    finally:
        back = {instead: function for function, instead in new.items()}
        _exchange({id(function): function for function in back}, back)


def _exchange(
    known: dict[int, Callable[..., Any]], new: dict[Callable[..., Any], Callable[..., Any]]
) -> None:
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in known:
                setattr(module, name, new[known[id(value)]])


_INHERITED = object()
