"""What the public names have in common.

Holds `Answer`, the base of all that questions return, and `callable_package`, for packages that
share their name with a public function. Both reach for rooms that come later, and load them when
they are used.
"""

import sys
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import Any


class Answer:
    """What a question returns: a line as its `repr`, a screen when printed, HTML in a notebook.

    How answers look is known to `syncwall.show`, which is loaded when one is shown.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return str(import_module("syncwall.show.answers").screen(self))

    def _repr_html_(self) -> str:
        return str(import_module("syncwall.show.answers").notebook(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, quantities in SI units: what `--json` writes."""
        found: dict[str, Any] = import_module("syncwall.show.answers").data(self)
        return found


class CallablePackage(ModuleType):
    """A package that is called like a function inside it: `syncwall.explain(paths)`."""

    _function: str
    """As "module:name"."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        """What its function says."""
        return self._found(*given, **named)

    @property
    def _found(self) -> Any:
        module, _, name = self._function.partition(":")
        return getattr(import_module(module), name)

    @property
    def __signature__(self) -> Signature:
        return signature(self._found)


def callable_package(package: str, function: str) -> None:
    """Let `package` be called like `function` ("syncwall.explain.question:explain")."""
    module: Any = sys.modules[package]
    module._function = function
    module.__class__ = CallablePackage
