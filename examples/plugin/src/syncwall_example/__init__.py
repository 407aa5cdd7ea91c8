"""An example of what a package can add to syncwall."""

from pathlib import Path

CATALOGUE = Path(__file__).parent / "catalogue"
"""Entries, in folders as in syncwall's own catalogue: clusters/NAME.yaml, devices/NAME.yaml, ..."""
