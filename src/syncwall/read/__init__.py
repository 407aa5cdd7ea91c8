"""Files that people already have: profiler traces, NCCL logs, topologies, benchmark outputs."""
