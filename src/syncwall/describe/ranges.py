"""How small and how large a number of a description may be.

Holds `RANGES` (quantities, by dimension, in SI units) and the most there is of anything counted:
`MOST`, and for what goes beyond it or must stay below `MOST_TOKENS`, `MOST_SEQUENCES`,
`MOST_LAYERS`, `MOST_IN_A_NODE`, `MOST_STEPS` and `MOST_IMBALANCE`. All are far beyond what is
built or planned, and near enough that products of them are finite, as floats and in 64 bits.
"""

from typing import Final

from syncwall.units import Dimension

RANGES: Final[dict[Dimension, tuple[float, float]]] = {
    Dimension.BYTES: (1.0, 1e21),
    Dimension.BYTES_PER_S: (1.0, 1e18),
    Dimension.FLOP: (1.0, 1e30),
    Dimension.FLOP_PER_S: (1e6, 1e21),
    Dimension.SECONDS: (1e-12, 1e10),
    Dimension.HERTZ: (1.0, 1e15),
    Dimension.WATTS: (1e-3, 1e9),
    Dimension.TOKENS: (1.0, 1e18),
    Dimension.USD: (1e-6, 1e18),
    Dimension.USD_PER_GPU_HOUR: (1e-6, 1e6),
}
MOST: Final = 10_000_000
"""Of GPUs, nodes, rows of an embedding, ...: the largest planned machine has a tenth of it."""
MOST_TOKENS: Final = 100_000_000
"""In a sequence; models are published with 10 million."""
MOST_SEQUENCES: Final = 1_000_000_000
"""In an optimizer step; the counts of strong scaling are its divisors."""
MOST_LAYERS: Final = 100_000
"""Of a model; the deepest that were trained have 1,000."""
MOST_IN_A_NODE: Final = 4096
"""GPUs or NICs of one node: each is listed when they are dealt to each other."""
MOST_STEPS: Final = 10**12
"""Of a job: a microsecond each, it goes on for 12 days."""
MOST_SEED: Final = 10**18
MOST_IMBALANCE: Final = 1000.0
"""Tokens of one expert-parallel rank over the average: with all of them on one rank it is the
number of ranks, and nobody has put 1,000 ranks around one layer."""
