"""The network that a run needs: bandwidth, scale-up bandwidth, latency and NICs."""
