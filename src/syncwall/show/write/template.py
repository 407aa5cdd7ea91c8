"""Texts with gaps: pages and reports are written as files in which names stand for their parts.

Holds `filled`.
"""

from collections.abc import Mapping


def filled(template: str, parts: Mapping[str, str]) -> str:
    """`template` with every `@@name@@` replaced; what is put in is not looked at again."""
    head, *rest = template.split("@@")  # text, name, text, name, ..., text
    names, texts = rest[::2], rest[1::2]
    return head + "".join(parts[name] + text for name, text in zip(names, texts, strict=True))
