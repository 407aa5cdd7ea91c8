"""Writers: blocks on a terminal, as one HTML page, or as Markdown."""
