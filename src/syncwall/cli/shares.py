"""Shares as people write them.

Holds `share_of`.
"""


def share_of(text: str) -> float | None:
    """5% or 0.05 as 0.05; None if it is no number."""
    try:
        return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return None
