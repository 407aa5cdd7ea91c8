"""Functions of PyTorch that are replaced for a while, and put back.

Holds `Patches`, and `when_imported`, which waits for a module without importing it.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Function = Callable[..., Any]
_MISSING = object()


class Patches:
    """All that was replaced."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any, Any]] = []
        self._finders: list[AfterImport] = []

    def replace(self, owner: Any, name: str, make: Callable[[Function], Function]) -> bool:
        """Put `make(function)` in the place of a function; False if there is none."""
        function = getattr(owner, name, None)
        if not callable(function):
            return False
        new = wraps(function)(make(function))
        own = vars(owner).get(name, _MISSING)
        setattr(owner, name, new)
        self._before.append((owner, name, new, own))
        return True

    def when_imported(self, name: str, action: Callable[[ModuleType], object]) -> None:
        """Call `action` with a module once it is there, now or later."""
        if name in sys.modules:
            action(sys.modules[name])
            return
        finder = AfterImport(name, action)
        self._finders.append(finder)
        sys.meta_path.insert(0, finder)

    def restore(self) -> None:
        """Put everything back, unless somebody else has replaced it since."""
        for owner, name, new, own in reversed(self._before):
            if vars(owner).get(name) is not new:
                continue
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        self._before.clear()
        for finder in self._finders:
            finder.remove()
        self._finders.clear()


class AfterImport(MetaPathFinder, Loader):
    """Finds a module as everybody else would, and calls `action` once it has been run."""

    def __init__(self, name: str, action: Callable[[ModuleType], object]) -> None:
        self._name, self._action = name, action
        self._loader: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual spec, loaded by us."""
        if name != self._name:
            return None
        self.remove()  # so that the usual finders are asked
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As usual."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """As usual, with the usual loader left in its place; then the action."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        with suppress(Exception):  # whatever this version of the module is like, it must load
            self._action(module)

    def remove(self) -> None:
        """Look no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
