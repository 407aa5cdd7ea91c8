"""JSON that is decoded at once, and bounded before it is.

Holds `whole_json`, for files of which every value is looked at; `json_array` is for long ones.
`plain_text`: a text or number of a stranger's file as text.
"""

import json
from typing import Any, Final

from syncwall.problems import InputError

_MOST_VALUES: Final = 4_000_000
"""An empty list, the worst, takes 64 bytes beside the 3 characters of its text."""


def plain_text(value: Any, most: int = 200) -> str:
    """The first `most` characters of a text or number; nothing of all else.

    Lists that share their parts can be gigabytes of text, and deep ones have none.
    """
    return str(value)[:most] if isinstance(value, str | int | float) else ""


def whole_json(raw: bytes, file: str, kind: str) -> Any:
    """The value in `raw`; InputError if it is not JSON, or larger than anything of its `kind`."""
    if raw.count(b",") > _MOST_VALUES:
        raise InputError.of(
            f"holds more than {_MOST_VALUES:,} values, too many for {kind}", file=file
        )
    try:
        return json.loads(raw)
    except RecursionError:
        raise InputError.of("is not JSON that can be read: nested too deeply", file=file) from None
    except ValueError as error:  # also integers above 4,300 digits
        raise InputError.of(f"is not whole JSON: {str(error)[:80]}", file=file) from None
