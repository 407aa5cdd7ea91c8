"""The sync wall: how many GPUs are worth it, what stands in the way, and what moves it."""
