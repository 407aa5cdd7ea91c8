"""Loaded by every Python that `syncwall watch` starts: watches it if it trains.

Does nothing unless SYNCWALL_WATCH is 1.

Stands in a folder of its own at the front of PYTHONPATH. A `sitecustomize` that the environment has
anyway, which this one hides, is loaded as well.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _chain() -> None:
    """Run the one that would have been found without us."""
    here = Path(__file__).resolve().parent
    others = [path for path in sys.path if Path(path or ".").resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _start() -> None:
    try:
        from syncwall.watch.attach import start_with_torch

        start_with_torch()
    except ModuleNotFoundError as error:
        said = f"{sys.executable} has no {error.name}: pip install syncwall there, too"
        print(f"syncwall watch: not watched: {said}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - the program must start, whatever is wrong with us
        print(f"syncwall watch: not watched: {error}", file=sys.stderr)


if os.environ.get("SYNCWALL_WATCH") == "1":
    _start()
_chain()
