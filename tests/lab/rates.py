"""What a link of a lab gives: `python -m bench scale lab-rates`."""

import statistics

from syncwall.lab import Topology, lab
from syncwall.lab.experiment_run import link_rate
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.result import Result


def rates(sleepy: bool = False, rounds: int = 3) -> None:
    """What a link of a lab gives, in Mbit/s of payload (root, torch, iperf3).

    For each rate: iperf3 one way, both ways at once, and all-reduces of 16 and 64 MB between two
    hosts by `measure collectives`. --sleepy lets the processors sleep, to see what that costs.
    """
    job = ["-m", "syncwall", "measure", "collectives", "--kinds", "all-reduce", "--min-size"]
    job += ["16MB", "--max-size", "64MB", "--trials", "5", "--json"]
    print("rate   iperf3 one way   both ways at once   all-reduce busbw   ratio (median, range)")
    for rate in (100, 250, 1000):
        topology = Topology(hosts=2, rate_bytes_per_s=rate * 125e3)
        ones, twos, buses = [], [], []
        with lab(topology, "rates", keep_awake=not sleepy) as hosts:
            output = hosts.directory / "times.json"
            for _ in range(rounds):
                ones.append(link_rate(hosts).forward_bytes_per_s * 8e-6)
                both = link_rate(hosts, both_ways=True)
                ways = (both.forward_bytes_per_s, both.backward_bytes_per_s or 0.0)
                twos.append(statistics.mean(ways) * 8e-6)
                done = hosts.run([*job, str(output)], time_limit_s=240)
                assert done.ok, done.message
                rows = map(CollectiveRow.model_validate, Result.read(output).data["rows"])
                buses.append(statistics.mean(row.busbw_bytes_per_s for row in rows) * 8e-6)
        ratios = [bus / two for bus, two in zip(buses, twos, strict=True)]
        one, two, bus, middle = map(statistics.median, (ones, twos, buses, ratios))
        spread = f"{middle:.3f}, {min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{rate:4}   {one:14.1f}   {two:17.1f}   {bus:16.1f}   {spread}", flush=True)
