"""What happens when flows share links: links, routes, streams, fair shares, collisions.

Holds `Routing`, which flags and questions name without loading the rest.
"""

from typing import Literal

Routing = Literal["ecmp", "static", "adaptive", "valiant"]
"""How flows find their way; `routes` says what each does."""
