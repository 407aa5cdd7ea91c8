"""Where to place several jobs on one fabric: nodes and rank order, and what sharing costs each."""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.ask.fabric:placement")
