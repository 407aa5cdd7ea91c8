"""Verbs that do something and are no questions.

Holds `Command`.
"""

from syncwall.describe.base import Description


class Command(Description):
    """A verb whose fields are its flags."""

    def run(self) -> int:
        """Do it, and return the exit code."""
        raise NotImplementedError
