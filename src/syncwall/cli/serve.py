"""`syncwall serve`: the pages, for a browser.

Holds `serve`.
"""

import re
import socket
from pathlib import Path
from typing import Annotated

import tyro

from syncwall.problems import InputError


def serve(
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8321,
    token: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None,
    no_auth: bool = False,
    findings: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = (),
    browser: bool = False,
) -> int:
    """Serve the pages: predict, sync wall, how a step works, fabric, job, plan, accuracy.

    Args:
        host: Address to listen on; another than this machine's own needs --token or --no-auth.
        port: Port to listen on; 0 for any that is free.
        token: What visitors must show; the printed address has it.
        no_auth: Let everybody in who can reach the address.
        findings: Folders with results of `lab run` and `measure`, for the Findings page.
        browser: Open the page in the browser.
    """
    try:
        from syncwall.web.application import LOOPBACK, Options, served
    except ImportError as error:
        raise InputError.of(f"{error.name} is missing: pip install 'syncwall[web]'") from None
    is_local = host in LOOPBACK
    if not is_local and token is None and not no_auth:
        raise InputError.of(
            f"--host {host}: others could ask too: write --token TEXT, or --no-auth to allow it"
        )
    if token is not None and not re.fullmatch(r"[\w.~-]{8,200}", token, re.ASCII):
        raise InputError.of("--token: write at least 8 letters, digits, or any of . _ ~ -")
    listening = _listening(host, port)
    address = _address(host, listening.getsockname()[1], token)
    print(f"syncwall is served at {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(address)
    served(Options(LOOPBACK if is_local else None, token, findings), listening)
    return 0


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(2048)  # who comes before all is loaded waits
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError.of(f"{host}:{port}: {reason}; write another --port, or 0") from None
    return found


def _address(host: str, port: int, token: str | None) -> str:
    from urllib.parse import quote

    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={quote(token)}" if token else "")
