"""Predictions beside published measurements: tables of runs, their mapping, sets and scores.

`report.validate` does all of it; `catalogue/runs/` holds the tables that come with syncwall.
"""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.validate.accuracy_report:validate")
