"""Profiler traces: where the steps of ranks go, and which rank holds the others up."""
