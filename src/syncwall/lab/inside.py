"""Programs inside a host of a lab.

Holds `inside`, which only says how: nothing is started here.
"""

import shutil
from collections.abc import Sequence


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """`command` in a namespace, killed by the kernel when whoever started it dies.

    The kernel watches the thread that starts it, so that must not be a short-lived one.
    """
    setpriv, ip = (shutil.which(tool) or tool for tool in ("setpriv", "ip"))
    return [setpriv, "--pdeathsig", "KILL", ip, "netns", "exec", namespace, *command]
