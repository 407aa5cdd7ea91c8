"""Descriptions and answers for people: sheets, tables, and the same as JSON.

Holds `record` and `sheet` for one entry, `listing` for all entries of a kind.
"""
