"""Records: one answer as plain data for JSON, with types that the published schemas come from."""
