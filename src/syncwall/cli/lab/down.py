"""`syncwall lab down`: remove hosts and links, with all that runs inside.

Holds `down`.
"""

from typing import Annotated

import tyro

from syncwall.problems import InputError, did_you_mean


def down(
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None,
    /,
    all: bool = False,  # noqa: A002 - the word that people type
) -> int:
    """Remove a lab and end all that runs inside; needs root.

    Args:
        name: Its name, as `lab up` and `lab list` print it; may be left out if there is only one.
        all: Every lab of this machine, also what a killed run has left.
    """
    from syncwall.lab import machine

    machine.needed("down")
    there = [lab.name for lab in machine.labs()]
    if all:
        name = None
    elif name is None:
        if len(there) > 1:
            raise InputError.of(f"which one? {', '.join(there)}; or --all")
        name = there[0] if there else ""  # then only folders of killed runs are removed
    elif name not in there:
        known = did_you_mean(name, there) or f"; there are {', '.join(there) or 'none'}"
        raise InputError.of(f'no lab is called "{name}"{known}')
    gone = machine.down(name)
    print("\n".join(f"removed {lab}" for lab in gone) or "there was nothing to remove")
    return 0
