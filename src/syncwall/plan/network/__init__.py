"""The network that a run needs: bandwidth, scale-up bandwidth, latency and NICs."""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.ask.plan:network")
