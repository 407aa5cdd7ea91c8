"""Tables of operations: what a job loses to its stragglers, by replaying it without them."""
