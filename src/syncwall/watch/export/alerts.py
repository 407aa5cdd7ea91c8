"""New findings for people: a webhook, or a command.

Holds `Alerts`, a listener, `alert` and `checked_webhook`. A thread delivers them, so that a slow
receiver delays nobody; what it cannot deliver is said on standard error.
"""

import json
import shlex
import subprocess
import sys
from queue import Full, Queue
from threading import Thread
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from syncwall.problems import InputError
from syncwall.watch.events import Finding, to_json
from syncwall.watch.lines import said
from syncwall.watch.live import Live

_TIMEOUT_S: Final = 10.0
_WAITING: Final = 100


class Alerts:
    """Tells of each finding once, when it is new.

    A webhook gets JSON by POST; its `text` is what chat programs show. A command gets the same on
    its standard input.
    """

    def __init__(self, webhook: str = "", command: str = "") -> None:
        self._webhook = checked_webhook(webhook) if webhook else ""
        self._command = shlex.split(command)
        self._waiting: Queue[bytes | None] = Queue(_WAITING)
        self._thread = Thread(target=self._deliver, name="alerts", daemon=True)
        self._thread.start()

    def round(self, live: Live) -> None:
        """Hand new findings over."""
        for one in live.new:
            try:
                self._waiting.put_nowait(alert(one))
            except Full:
                _say("too many findings at once: not all are delivered")

    def close(self) -> None:
        """Deliver what is waiting, for a while."""
        self._waiting.put(None)
        self._thread.join(_TIMEOUT_S)

    def _deliver(self) -> None:
        while (body := self._waiting.get()) is not None:
            for way in (self._post, self._run):
                try:
                    way(body)
                except (OSError, URLError, ValueError, subprocess.SubprocessError) as error:
                    _say(f"an alert was not delivered: {error}")

    def _post(self, body: bytes) -> None:
        if self._webhook:
            headers = {"Content-Type": "application/json"}
            request = Request(self._webhook, body, headers)  # noqa: S310 - http or https, checked
            with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                pass

    def _run(self, body: bytes) -> None:
        if self._command:
            subprocess.run(  # noqa: S603 - the user's own command
                self._command, input=body, timeout=_TIMEOUT_S, check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip


def checked_webhook(address: str) -> str:
    """The address; InputError if it is none of the web."""
    if not address.startswith(("http://", "https://")):
        raise InputError.of(f"{address}: a webhook begins with http:// or https://")
    return address


def alert(finding: Finding) -> bytes:
    """What is delivered."""
    body: dict[str, Any] = {"text": f"syncwall: {said(finding)}"}
    return json.dumps(body | {"finding": json.loads(to_json(finding))}).encode()


def _say(text: str) -> None:
    print(f"syncwall watch: {text}", file=sys.stderr, flush=True)
