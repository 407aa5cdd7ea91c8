"""Fits of the catalogue's calibrations to published measurements."""
