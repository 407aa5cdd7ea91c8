"""What iperf3 gets out of a link of a lab.

Holds `LinkRate` and `link_rate`.
"""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator

from syncwall.describe.base import Description
from syncwall.lab.awake import awake
from syncwall.lab.hosts import Hosts
from syncwall.lab.inside import inside
from syncwall.problems import InputError


class LinkRate(Description):
    """Payload between two hosts, as the receivers count it."""

    forward_bytes_per_s: float
    """From client to server."""
    backward_bytes_per_s: float | None = None
    """The other way at the same time; None if that was not asked for."""
    seconds: float


def link_rate(
    hosts: Hosts, client: int = 0, server: int = 1, *, seconds: int = 2, both_ways: bool = False
) -> LinkRate:
    """The rate of one TCP stream between two hosts of a lab, or of one each way."""
    iperf3 = shutil.which("iperf3")
    if iperf3 is None:
        raise InputError.of("`iperf3` is not installed: apt-get install iperf3")
    target = hosts.address(server)
    command = [iperf3, "-c", target, "-J", "-t", str(seconds), "-O", "1", "-i", "1"]
    command += ["--bidir"] if both_ways else []
    sender, receiver = hosts.network.hosts[client], hosts.network.hosts[server]
    with contextlib.ExitStack() as stack:
        if hosts.keep_awake:
            stack.enter_context(awake(receiver))
        stack.enter_context(_server(receiver, iperf3))
        for _ in range(20):  # the server takes a moment to listen
            done = subprocess.run(  # noqa: S603 - our own command
                inside(sender, command),
                capture_output=True, text=True, check=False, timeout=seconds + 20,
            )  # fmt: skip
            if "refused" not in done.stdout:
                break
            time.sleep(0.05)
    return _read(done.stdout, seconds)


def _read(text: str, seconds: float) -> LinkRate:
    try:
        end = json.loads(text)["end"]
        forward = float(end["sum_received"]["bits_per_second"]) / 8
        back = end.get("sum_received_bidir_reverse")
    except (ValueError, KeyError):
        raise InputError.of(f"iperf3 said: {text.strip()[-300:] or 'nothing'}") from None
    backward = float(back["bits_per_second"]) / 8 if back else None
    return LinkRate(forward_bytes_per_s=forward, backward_bytes_per_s=backward, seconds=seconds)


@contextlib.contextmanager
def _server(namespace: str, iperf3: str) -> Iterator[None]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        inside(namespace, [iperf3, "-s", "-1"]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
