"""The same flows in SimGrid: `python -m tests.network.simgrid_oracle` reads them as JSON.

It runs in a process of its own, since an engine of SimGrid exists once; the module of Debian's
`python3-simgrid` is loaded from the system's packages.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SYSTEM = Path("/usr/lib/python3/dist-packages")


def missing() -> str | None:
    """Why there is no SimGrid here; None if there is."""
    found = list(SYSTEM.glob("simgrid.*.so"))
    if not found:
        return "SimGrid is absent: apt-get install python3-simgrid"
    if f"cpython-{sys.version_info[0]}{sys.version_info[1]}-" not in found[0].name:
        return f"SimGrid of Debian is for another Python: {found[0].name}"
    return None


def completion_s(cases: Sequence[dict[str, Any]]) -> list[list[float]]:
    """When each flow of each case ends; a case has `rates` of links, `ways` and `bytes`."""
    command = [sys.executable, "-m", "tests.network.simgrid_oracle"]
    out = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=True)
    found: list[list[float]] = json.loads(out.stdout.splitlines()[-1])
    return found


def _load() -> Any:
    path = next(SYSTEM.glob("simgrid.*.so"))
    spec = importlib.util.spec_from_file_location("simgrid", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPTIONS = (
    "network/model:CM02",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "maxmin/precision:1e-12",
    "surf/precision:1e-12",
)


def _main() -> None:
    """All cases share an engine and nothing else: every one has links and hosts of its own."""
    cases, sg = json.load(sys.stdin), _load()
    quiet = ["--log=root.thres:critical", "--log=xbt_cfg.thres:critical"]
    engine = sg.Engine(["oracle", *[f"--cfg={one}" for one in OPTIONS], *quiet])
    zone = sg.NetZone.create_full_zone("all")
    hosts = [_built(sg, zone, case, f"case{number}") for number, case in enumerate(cases)]
    zone.seal()
    ended = [[0.0] * len(case["ways"]) for case in cases]
    names = [(case, flow) for case, of_case in enumerate(hosts) for flow in range(len(of_case))]

    def driver() -> None:
        flows = [
            sg.Comm.sendto_async(*hosts[case][flow], int(cases[case]["bytes"][flow])) for case, flow in names
        ]
        waiting = list(range(len(flows)))
        while waiting:
            number = waiting.pop(sg.Comm.wait_any([flows[one] for one in waiting]))
            case, flow = names[number]
            ended[case][flow] = sg.Engine.clock

    sg.Actor.create("driver", hosts[0][0][0], driver)
    engine.run()
    print(json.dumps(ended))


def _built(sg: Any, zone: Any, case: dict[str, Any], name: str) -> list[Any]:
    """Hosts of the flows of a case, each pair with the route of its flow."""
    links = [
        zone.create_link(f"{name}-link{number}", rate).set_latency(0).seal()
        for number, rate in enumerate(case["rates"])
    ]
    hosts = []
    for number, way in enumerate(case["ways"]):
        ends = [zone.create_host(f"{name}-{side}{number}", 1e9).seal() for side in ("from", "to")]
        over = [sg.LinkInRoute(links[link]) for link in way]
        zone.add_route(ends[0].netpoint, ends[1].netpoint, None, None, over, False)
        hosts.append(ends)
    return hosts


if __name__ == "__main__":
    _main()
