"""The routes of the pages, one module a page; each holds a `router`."""
