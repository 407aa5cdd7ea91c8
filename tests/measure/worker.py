"""One rank that joins and then does what a test asks for.

Usage: python worker.py loop [TIMEOUT_S]: all-reduce for ever; the end is that of a lost rank.
       python worker.py once: join, gather the hosts, leave.
"""

import os
import sys
import time

from syncwall.measure.team import LostRankError, Team, joined


def loop(team: Team) -> None:
    start = time.monotonic()
    while time.monotonic() - start < 120:
        if team.slowest([1.0]) == [1.0] and time.monotonic() - start < 0.5:
            print("going", flush=True)
        time.sleep(0.01)


def once(team: Team) -> None:
    print(team.gathered(team.hosts[team.rank]), len(team.facts), flush=True)


def main() -> int:
    what, timeout_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    try:
        with joined("gloo", timeout_s) as team:
            {"loop": loop, "once": once}[what](team)
    except LostRankError as error:
        print(f"LOST {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
