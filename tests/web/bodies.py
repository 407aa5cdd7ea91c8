"""Bodies of requests that are hard to check, or of which it is hard to say what is wrong."""

import json

MAX_BODY_BYTES = 256 * 1024
RUN = b'{"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 4}'


def filled(before: str, one: str, after: str) -> bytes:
    """A body of nearly 256 KiB in which `one` stands as often as it can."""
    room = MAX_BODY_BYTES - len(before) - len(after)
    return (before + one * (room // len(one.encode()) - 1) + one.rstrip(",") + after).encode()


def joined(before: str, parts: list[str], after: str) -> bytes:
    return (before + ",".join(parts) + after).encode()


_START = '{"model": "llama-3.1-8b", "cluster": "dgx-h100", '
_LAYOUT, _ORDER = _START + '"layout": {', _START + '"layout": {"order": ['
_ODD_KEYS = {f"{n}" + "\x01" * 390: [0] * 9 for n in range(100)}
BODIES = {
    "zeros in a layout": filled('{"layout": {"a": [', "0,", "]}}"),
    "zeros in a run": filled(_ORDER, "0,", "]}}"),
    "lists in a layout": filled(_ORDER, "[],", "]}}"),
    "objects in a model": filled('{"cluster": "dgx-h100", "model": {"a": [', "{},", "]}}"),
    "a long key": filled(_START + '"layout": {"', "k", '": 1}}'),
    "a long unknown key": filled(_START + '"', "k", '": 1}'),
    "a long text": filled(_START + '"layout": {"shard": "', "é", '"}}'),
    "a long name": filled('{"cluster": "dgx-h100", "model": "', "m", '"}'),
    "long numbers": filled(_ORDER, "9" * 4000 + ",", "]}}"),
    "escapes": filled(_START + '"layout": {"shard": "', "\\u0001", '"}}'),
    "not an object": filled("[", "1,", "]"),
    "lists in lists": filled("", "[", ""),
    "unknown keys": joined(_LAYOUT, [f'"{n:05}": 1' for n in range(20_000)], "}}"),
    "as many as may be": joined(_ORDER, ["0"] * 1901, "]}}"),
    "as many keys as may be": joined(_LAYOUT, [f'"{"k" * 100}{n}": 1' for n in range(900)], "}}"),
    "keys that are hard to write": json.dumps({**json.loads(RUN), "layout": _ODD_KEYS}).encode(),
}
"""What is hard to check, or to say what is wrong with it."""
