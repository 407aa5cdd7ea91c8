"""Printing: pages for people, JSON for programs.

Holds `print_page` and `print_json`.
"""

import json
import sys
from typing import Any, Final

from rich.console import Console, RenderableType

_WIDTH_OF_FILES: Final = 200


def print_page(page: RenderableType) -> None:
    """Print `page`, in colour and as wide as the terminal; plain and wide into a file or pipe."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_FILES)
    console.print(page)


def print_json(data: Any) -> None:
    """Print `data` as JSON."""
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
