"""Predictions beside published measurements: tables of runs, their mapping, sets and scores.

`report.validate` does all of it; `catalogue/runs/` holds the tables that come with syncwall.
"""
