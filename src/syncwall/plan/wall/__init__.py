"""The sync wall: how many GPUs are worth it, what stands in the way, and what moves it."""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.ask.plan:wall")
