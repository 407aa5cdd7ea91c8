"""Benchmarks: accuracy and speed."""
