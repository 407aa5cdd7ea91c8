"""The fabric for a number of GPUs: switches, cables, bandwidth, failures, cost, and its effect."""
