"""What a link of a lab gives: `python bench/lab_rates.py [sleepy]` (root, torch, iperf3).

For each rate: iperf3 one way, both ways at once, and all-reduces of 16 and 64 MB between two hosts
by `measure collectives`; in Mbit/s of payload. `sleepy` lets the processors sleep, to see what that
costs.
"""

import statistics
import sys

from syncwall.lab import Topology, lab
from syncwall.lab.run import link_rate
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.result import Result

JOB = ["-m", "syncwall", "measure", "collectives", "--kinds", "all-reduce", "--min-size", "16MB",
       "--max-size", "64MB", "--trials", "5", "--json"]  # fmt: skip
ROUNDS = 3


def main() -> None:
    print("rate   iperf3 one way   both ways at once   all-reduce busbw   ratio (median, range)")
    for rate in (100, 250, 1000):
        topology = Topology(hosts=2, rate_bytes_per_s=rate * 125e3)
        ones, twos, buses = [], [], []
        with lab(topology, "rates", keep_awake="sleepy" not in sys.argv) as hosts:
            output = hosts.directory / "times.json"
            for _ in range(ROUNDS):
                ones.append(link_rate(hosts).forward_bytes_per_s * 8e-6)
                both = link_rate(hosts, both_ways=True)
                ways = (both.forward_bytes_per_s, both.backward_bytes_per_s or 0.0)
                twos.append(statistics.mean(ways) * 8e-6)
                done = hosts.run([*JOB, str(output)], time_limit_s=240)
                assert done.ok, done.message
                rows = map(CollectiveRow.model_validate, Result.read(output).data["rows"])
                buses.append(statistics.mean(row.busbw_bytes_per_s for row in rows) * 8e-6)
        ratios = [bus / two for bus, two in zip(buses, twos, strict=True)]
        print(
            f"{rate:4}   {statistics.median(ones):14.1f}   {statistics.median(twos):17.1f}   "
            f"{statistics.median(buses):16.1f}   {statistics.median(ratios):.3f}, "
            f"{min(ratios):.3f} to {max(ratios):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
