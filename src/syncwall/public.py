"""What the public names have in common.

Holds `Answer`, the base of all that questions return; `published`, `Part` and `Late`, which say
what of an answer is in its JSON; and `callable_package`, for packages that share their name with
a public function. They reach for rooms that come later, and load them when they are used.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import Annotated, Any, ClassVar, TypeVar

Keys = tuple[tuple[str, tuple[str, ...]], ...]
"""Keys of JSON, each with the names of the attributes that lead to its value."""
Endless = Annotated[float, "null in JSON if it is infinite"]
"""A number that may be infinite."""
Numbers = Annotated[Any, list[float]]
"""An array of NumPy. What may be an array is `Annotated[Any, what it is in JSON]`."""
_Class = TypeVar("_Class", bound=type)


def keys_of(*keys: str) -> Keys:
    """`keys` separated by blanks: the name of an attribute, or `key=path.to.an.attribute`."""
    split = (one.partition("=") for one in " ".join(keys).split())
    return tuple((key, tuple((path or key).split("."))) for key, _, path in split)


def published(*keys: str, **texts: str) -> Callable[[_Class], _Class]:
    """Decorates a class whose objects are JSON with these keys; all its fields if there are none.

    An attribute may be a field, a property, a method without arguments, a `Late` or a `Part`; its
    annotation and its docstring become the schema. A path that meets None is None; one that meets
    a list goes on with each of its parts. `texts` are for keys whose attribute says too little.
    """

    def marked(owner: _Class) -> _Class:
        owner.__published__ = keys_of(*keys or owner.__annotations__)  # type: ignore[attr-defined]
        owner.__texts__ = texts  # type: ignore[attr-defined]
        return owner

    return marked


class Late:
    """An attribute that a function of a later module computes, once: `Late("room.module:name")`."""

    def __init__(self, function: str) -> None:
        self.module, _, self.name = f"syncwall.{function}".partition(":")

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name

    @property
    def function(self) -> Callable[[Any], Any]:
        """What computes it; its annotation and docstring are those of the attribute."""
        found: Callable[[Any], Any] = getattr(import_module(self.module), self.name)
        return found

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        value = self.function(owner)
        value = tuple(value) if isinstance(value, Iterator) else value
        if hasattr(owner, "__dict__"):  # as cached_property keeps it; types with slots do not
            owner.__dict__[self.attribute] = value
        return value


class Part:
    """An attribute that is the same object with other published keys; `text` says what it is."""

    def __init__(self, *keys: str, text: str = "", name: str = "") -> None:
        """`name` is that in schemas."""
        self.keys, self.text, self.name = keys_of(*keys), text, name

    def __get__(self, owner: Any, kind: type) -> Any:
        return self if owner is None else Extract(owner, self.keys)


class Extract:
    """An object of which only `keys` are published."""

    def __init__(self, whole: Any, keys: Keys) -> None:
        self.whole, self.__published__ = whole, keys

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)


class Answer:
    """What a question returns: a line as its `repr`, a screen when printed, HTML in a notebook.

    How answers look is known to `syncwall.show`, which is loaded when one is shown.
    """

    __slots__ = ()
    verb: ClassVar[str] = ""
    """Whose answer it is, in its JSON; empty for a part of one."""

    def __str__(self) -> str:
        return str(import_module("syncwall.show.answers").screen(self))

    def _repr_html_(self) -> str:
        return str(import_module("syncwall.show.answers").notebook(self))

    @property
    def exit_code(self) -> int:
        """That of the command line: 1 if the answer is no, as for a run that does not fit."""
        return int(not getattr(self, "fits", True))

    def view(self, **how: Any) -> Any:
        """The blocks that screens and pages show; `how` is what the verb's own flags say."""
        return import_module("syncwall.show.answers").view(self, **how)

    @property
    def _json(self) -> Any:
        """What of it is its JSON: all that is published, or a `Part`."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, quantities in SI units: what `--json` writes."""
        found: dict[str, Any] = import_module("syncwall.records").answer_data(self._json)
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
