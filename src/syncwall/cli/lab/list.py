"""`syncwall lab list`: labs that exist now.

Holds `list`.
"""

from dataclasses import asdict


def list(json: bool = False) -> int:  # noqa: A001 - the function is named as the part
    """Show the labs of this machine.

    Args:
        json: Print JSON.
    """
    from syncwall.lab.machine import labs
    from syncwall.show.headed import print_json

    found = labs()
    if json:
        print_json([asdict(lab) | {"hosts": lab.hosts} for lab in found])
        return 0
    for lab in found:
        print(f"{lab.name}   {lab.hosts} hosts, {lab.processes} processes inside")
    if not found:
        print("no labs")
    return 0
