"""`syncwall lab list`: labs that exist now.

Holds `list`.
"""

from syncwall.cli.output import Output, OutputFlags


def list(out: Output = OutputFlags()) -> int:  # noqa: A001, B008 - named as the part; defaults
    """Show the labs of this machine.

    Args:
        out: Where the answer goes.
    """
    from syncwall.lab.machine import labs
    from syncwall.show.views.lab import labs_view

    out.check()
    found = labs()
    out.write_data("lab list", lambda: labs_view(found), lambda: {"labs": found})
    return 0
