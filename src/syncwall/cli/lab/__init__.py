"""`syncwall lab`: real experiments on several hosts made on one Linux machine.

Holds `PARTS`.
"""

from typing import Final

PARTS: Final = {
    "up": "make the hosts and links of an experiment",
    "run": "run an experiment for real, and compare with predictions",
    "down": "remove hosts and links",
    "list": "labs that exist now",
}
