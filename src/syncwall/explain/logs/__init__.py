"""NCCL logs, flight recorder dumps and nsys summaries: what they show that costs time."""
