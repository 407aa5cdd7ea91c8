"""Views: one answer as a list of blocks, which every writer can write."""
