"""Debian's Firefox, driven over its own protocol: no driver, no package.

Holds `Firefox` and `firefox`. Playwright asks it for what only later versions can, and Debian has
no geckodriver. Marionette is what geckodriver itself talks to: `length:[0, number, command, {...}]`
over a socket (https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html).
"""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of a reference to an element, fixed by the WebDriver standard."""
ENTER = "\ue007"
_ERRORS = """
const found = Services.console.getMessageArray().filter(
  (one) => one instanceof Ci.nsIScriptError && one.logLevel === Ci.nsIConsoleMessage.error
    && one.sourceName.startsWith(arguments[0]),
).map((one) => one.message);
Services.console.reset();
return found;
"""
_PREFS = {
    "marionette.port": 0,  # a free one, written into the profile
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "app.update.disabledForTesting": True,
}


class Firefox:
    """One window."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=90)
        self._stream = self._socket.makefile("rb")
        self._number = 0
        self._heard()  # its greeting
        self._ask("WebDriver:NewSession")

    def open(self, address: str, width: int = 1440, height: int = 900) -> None:
        """Load a page, in a window of this size."""
        self._ask("WebDriver:SetWindowRect", width=width, height=height)
        self._ask("WebDriver:Navigate", url=address)

    def run(self, script: str, *args: Any) -> Any:
        """What a function with this body returns in the page."""
        return self._ask("WebDriver:ExecuteScript", script=script, args=args)["value"]

    def until(self, expression: str, most_s: float = 30.0) -> Any:
        """Wait until an expression is true; its value."""
        end = monotonic() + most_s
        while not (found := self.run(f"return {expression}")):
            assert monotonic() < end, expression
            sleep(0.05)
        return found

    def element(self, selector: str, text: str = "") -> dict[str, str]:
        """The first element that is visible and holds `text`, once it is there."""
        script = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((one) => "
            f"one.checkVisibility() && one.textContent.includes({json.dumps(text)}))"
        )
        return {ELEMENT: self.until(script)[ELEMENT]}

    def click(self, selector: str, text: str = "") -> None:
        """Click as a hand does: into view, in the middle, refused if something else is above."""
        self._ask("WebDriver:ElementClick", id=self.element(selector, text)[ELEMENT])

    def type(self, selector: str, keys: str) -> None:
        """Type into a field after what it holds."""
        self._ask("WebDriver:ElementSendKeys", id=self.element(selector)[ELEMENT], text=keys)

    def clear(self, selector: str) -> None:
        """Empty a field."""
        self._ask("WebDriver:ElementClear", id=self.element(selector)[ELEMENT])

    def errors(self, address: str) -> list[str]:
        """What scripts of this address did wrong since the last time, from the console."""
        self._ask("Marionette:SetContext", value="chrome")
        found = self.run(_ERRORS, address)
        self._ask("Marionette:SetContext", value="content")
        return list(found)

    def close(self) -> None:
        """End the browser."""
        self._ask("Marionette:Quit", flags=["eForceQuit"])
        self._stream.close()
        self._socket.close()

    def _ask(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        said = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(said), said))
        _, number, error, result = self._heard()
        assert number == self._number
        assert error is None, f"{command}: {error['error']}: {error['message']}"
        return result

    def _heard(self) -> Any:
        length = b""
        while (one := self._stream.read(1)) != b":":
            assert one, "Firefox has gone"
            length += one
        return json.loads(self._stream.read(int(length)))


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """A browser without a window, with a profile of its own in an empty folder."""
    assert PROGRAM is not None
    lines = (f"user_pref({json.dumps(key)}, {json.dumps(value)});" for key, value in _PREFS.items())
    (profile / "user.js").write_text("\n".join(lines))
    command = [PROGRAM, "--headless", "--no-remote", "--profile", str(profile)]
    command += ["--marionette", "--remote-allow-system-access"]  # the latter for its console
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            browser = Firefox(_port(profile / "MarionetteActivePort", process))
            yield browser
            browser.close()
        finally:
            if process.poll() is None:
                process.terminate()


def _port(file: Path, process: subprocess.Popen[bytes], most_s: float = 90.0) -> int:
    """Where it listens, once it does."""
    end = monotonic() + most_s
    while not (file.exists() and file.read_text().strip()):
        assert process.poll() is None, "Firefox ended at once"
        assert monotonic() < end, "Firefox does not listen"
        sleep(0.1)
    return int(file.read_text())
