"""`syncwall serve`: the pages, for a browser.

Holds `serve` and its `AccessFlags`.
"""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from syncwall.ask.question import Argument, LocalFile, LocalFolder
from syncwall.cli.call import Command
from syncwall.describe.base import Description
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.web.application import Options

_TOKEN = "SYNCWALL_TOKEN"  # noqa: S105 - the name of the variable


class AccessFlags(Description):
    """Who may ask, and under which names."""

    token: Annotated[str | None, Argument("TEXT")] = None
    """What visitors must show; the printed address has it, and the process list too."""
    token_file: LocalFile | None = None
    """File with the token; without both, SYNCWALL_TOKEN of the environment is taken if set."""
    no_auth: bool = False
    """Let everybody in who can reach the address."""
    allow_host: Annotated[tuple[str, ...], Argument("NAME")] = ()
    """Name under which a proxy serves the pages, such as sync.example.org; may be repeated."""
    root_path: Annotated[str, Argument("PATH")] = ""
    """Path under which a proxy serves them, such as /sync."""

    def secret(self) -> str | None:
        """The token, wherever it stands."""
        where, found = "--token", self.token
        if found is None and self.token_file is not None:
            where = f"--token-file {self.token_file}"
            try:
                found = self.token_file.read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                raise InputError.of(f"{where}: {error}") from None
        elif found is None:
            where, found = _TOKEN, os.environ.get(_TOKEN)
        if found is not None and not re.fullmatch(r"[\w.~-]{8,200}", found, re.ASCII):
            raise InputError.of(f"{where}: write at least 8 letters, digits, or any of . _ ~ -")
        return found

    def options(self, host: str, findings: tuple[Path, ...], files: Path | None) -> "Options":
        """How the pages are served at `host`."""
        from syncwall.hosts import LOOPBACK
        from syncwall.web.application import Options
        from syncwall.web.guard import host_name

        token = self.secret()
        if host not in LOOPBACK and token is None and not self.no_auth:
            said = "write --token-file FILE or --token TEXT, or --no-auth to allow it"
            raise InputError.of(f"--host {host}: others could ask too: {said}")
        origins = frozenset(name.lower() for name in self.allow_host)
        stated = frozenset(map(host_name, origins))
        if "" in stated:
            raise InputError.of("--allow-host: write a name, such as sync.example.org")
        root = self.root_path.rstrip("/")
        if not re.fullmatch(r"(/[\w.~-]+)*", root, re.ASCII):
            raise InputError.of("--root-path: write a path, such as /sync")
        names = LOOPBACK | {host.lower()} | stated if host in LOOPBACK or stated else None
        return Options(names, token, origins, root, findings, files)


class ServeCommand(Command):
    """Serve the pages: predict, explain, sync wall, how a step works, fabric, job, plan, ..."""

    host: Annotated[str, Argument("ADDRESS")] = "127.0.0.1"
    """Address to listen on; another than this machine's own needs a token or --no-auth."""
    port: Annotated[int, Argument("N")] = 8321
    """Port to listen on; 0 for any that is free."""
    access: Annotated[AccessFlags, Argument(inline=True, group="access")] = AccessFlags()
    """Who may ask, and under which names."""
    findings: Annotated[tuple[LocalFile, ...], Argument("DIR")] = ()
    """Folders with results of `lab run` and `measure`, for the Findings page."""
    files: LocalFolder | None = None
    """Folder with traces, logs and benchmarks that visitors of the Explain page may choose."""
    browser: bool = False
    """Open the page in the browser."""

    def run(self) -> int:
        """The exit code."""
        try:
            from syncwall.web.application import served
            from syncwall.web.workers import check_processes
        except ImportError as error:
            raise InputError.of(
                f"{error.name} is missing: pip install fastapi uvicorn plotly python-multipart brotli"
            ) from None
        if self.files is not None and not self.files.is_dir():
            raise InputError.of(f"--files {self.files}: is no folder")
        options = self.access.options(self.host, self.findings, self.files and self.files.resolve())
        check_processes()
        listening = _listening(self.host, self.port)
        name = f"[{self.host}]" if ":" in self.host else self.host
        address = f"http://{name}:{listening.getsockname()[1]}{options.root}/"
        query = f"?token={options.token}" if options.token else ""
        told = query if self.access.token else query and "?token=..."  # what is in a file stays there
        print(f"syncwall is served at {address}{told}  (Ctrl-C ends it)", flush=True)
        if self.browser:
            import webbrowser

            webbrowser.open(address + query)
        served(options, listening)
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
