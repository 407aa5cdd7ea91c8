"""What changed between two days of a job: seconds, kernels, collectives, settings."""
