"""The fabric for a number of GPUs: switches, cables, bandwidth, failures, cost, and its effect."""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.ask.fabric:fabric")
