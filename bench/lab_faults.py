"""Whether the slow host is named: `python bench/lab_faults.py [COUNT]` (root, torch).

COUNT labs (20) of four hosts each have one slow host, by turns a slow link, which `measure links`
must name, and a slow worker, which `measure step` must name; as many are healthy, and nobody may be
accused. Then a link is cut and a worker is killed in mid-run: how long until the job ends, and
whether the message names the host.
"""

import random
import sys
from pathlib import Path
from typing import Any

from syncwall.lab import Topology, lab
from syncwall.lab.experiment import CutLink, Fault, Kill, SlowLink, SlowWorker
from syncwall.lab.hosts import Hosts
from syncwall.measure.result import Result

HOSTS = 4
RATE_BYTES_PER_S = 200 * 125e3
PARTS = {"links": ["--repeats", "9"], "step": ["--steps", "8", "--warm-up", "1"]}
LOST = ["--steps", "1000"]


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    random.seed(5)
    found = {"named": 0, "other host accused": 0, "missed": 0, "healthy": 0, "falsely accused": 0}
    for number in range(count):
        part = "links" if number % 2 else "step"
        slow = random.randrange(HOSTS)
        accused = _accused(part, [_fault(part, slow)])
        right = accused == [f"h{slow}"]
        found["named" if right else "other host accused" if accused else "missed"] += 1
        print(f"{number + 1}: slow {part} h{slow}: {accused or 'nobody'}", flush=True)
        accused = _accused(part, [])
        found["falsely accused" if accused else "healthy"] += 1
        print(f"{number + 1}: healthy {part}: {accused or 'nobody'}", flush=True)
    ended = [_ended(CutLink(host=2, after_s=20.0), 2), _ended(Kill(rank=1, after_s=20.0), 1)]
    print(f"{found['named']} of {count} slow hosts named, {found['falsely accused']} of {count} "
          f"healthy runs accuse someone ({found})")  # fmt: skip
    bad = found["named"] < count or found["falsely accused"] or not all(ended)
    return 1 if bad else 0


def _fault(part: str, slow: int) -> Fault:
    if part == "links":
        share = random.uniform(0.3, 0.5)
        return Fault(slow_link=SlowLink(host=slow, rate_bytes_per_s=share * RATE_BYTES_PER_S))
    return Fault(slow_worker=SlowWorker(rank=slow, share=0.25))


def _accused(part: str, faults: list[Fault]) -> list[str]:
    """Hosts that a run names."""
    rate = RATE_BYTES_PER_S * (1 if part == "links" else 5)
    with lab(Topology(hosts=HOSTS, rate_bytes_per_s=rate), "faults") as hosts:
        outcome, data = _measured(hosts, part, PARTS[part], faults)
    if not data:
        print(f"   failed: {outcome}")
        return ["failed"]
    return [suspect["host"] for suspect in data["suspects"]]


def _measured(
    hosts: Hosts, part: str, flags: list[str], faults: list[Fault]
) -> tuple[str, dict[str, Any]]:
    output = Path(hosts.directory) / "result.json"
    words = ["-m", "syncwall", "measure", part, *flags, "--json", str(output)]
    outcome = hosts.run(words, time_limit_s=180, faults=faults)
    return str(outcome.message), Result.read(output).data if output.exists() else {}


def _ended(what: CutLink | Kill, host: int) -> bool:
    """True if the job ends in less than 60 s after `what`, and the message names the host."""
    fault = Fault(cut_link=what) if isinstance(what, CutLink) else Fault(kill=what)
    with lab(Topology(hosts=HOSTS, rate_bytes_per_s=125e6), "faults") as hosts:
        words = ["-m", "syncwall", "measure", "step", *LOST]
        outcome = hosts.run(words, time_limit_s=180, faults=[fault])
    after_s = outcome.seconds - what.after_s
    said = [text.strip().splitlines()[-1] for text in outcome.errors if text.strip()]
    named = any(f"h{host}" in line for line in said) or f"h{host}" in str(outcome.message)
    print(f"{fault.label}: ended {after_s:.1f} s later, named: {named}")
    for line in dict.fromkeys(said):
        print(f"   {line[:160]}")
    return after_s < 60 and named and not outcome.ok


if __name__ == "__main__":
    raise SystemExit(main())
