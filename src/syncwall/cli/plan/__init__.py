"""`syncwall plan`: what to run and what to buy.

Holds `PARTS`.
"""

from typing import Final

PARTS: Final = {
    "layouts": "the fastest, cheapest or smallest layouts of a model on a cluster",
    "wall": "how far a run scales, what stops it, what moves the wall",
    "network": "the slowest network on which a run stays efficient",
    "fabric": "switches, cables, failures and cost of a fabric, and its effect",
    "placement": "nodes and rank order of several jobs on one fabric",
}
