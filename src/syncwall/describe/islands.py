"""Islands that train apart and meet seldom, over a slow link (DiLoCo).

Holds `Islands`: how many there are, what joins them, and what they send each other every so many
steps. Each island is a run of its own.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from syncwall.describe.base import BytesPerSecond, Delay, Positive
from syncwall.describe.files import Section

OuterDtype = Literal["fp32", "bf16", "int8", "int4"]
OUTER_BYTES: Final[dict[str, float]] = {"fp32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes of one outer gradient, without the scaling factors of blocks."""


class Islands(Section):
    """Equal groups of GPUs, and the outer step that joins them."""

    section: ClassVar[str] = "islands"

    count: Positive
    """Islands."""
    every: Positive
    """Steps between two meetings (H of DiLoCo)."""
    link_bytes_per_s: BytesPerSecond = Field(alias="link")
    """What an island sends in a second, one way, while it receives as much."""
    latency_s: Delay = Field(0.0, alias="latency")
    """Of one message from an island to the next."""
    outer_dtype: OuterDtype = "fp32"
    """Format in which outer gradients are sent."""
    overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the steps between two meetings beside which outer gradients may be sent (Streaming
    DiLoCo); 0 if training stops for them."""
    parts: Positive = 1
    """Fragments of the model that meet one after the other, each every `every` steps."""
