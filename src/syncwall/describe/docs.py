"""What the fields of a class mean, in the words under them in the source.

Holds `documented`. Read when somebody asks (help, schemas), not when the package is imported.
"""

import ast
import inspect
import sys
from functools import cache


@cache
def documented(described: type) -> dict[str, str]:
    """The text under each field of `described`, on one line; fields without one are left out."""
    found: dict[str, str] = {}
    for base in reversed(described.__mro__):
        if base.__module__.startswith("syncwall."):
            found |= _classes(base.__module__).get(base.__name__, {})
    return found


@cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """The texts of each class of a module."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {one.name: _under_fields(one) for one in body if isinstance(one, ast.ClassDef)}


def _under_fields(body: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[field.target.id] = " ".join(text.split())
    return found
