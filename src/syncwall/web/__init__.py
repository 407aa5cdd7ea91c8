"""The served pages: one local web application on the functions of this package.

`application` puts everything together. `answers` holds what is computed for a page, as functions
from what was asked to plain data, which `workers` calls in other processes; `api` holds the routes;
`pages` and `static` hold what the browser gets. Nothing is ever fetched from elsewhere.
"""
