"""The flows of a run on links that they share, for the Fabric page.

Holds `flows`: the numbers of `predict --fabric`, or for two copies of the run those of
`plan placement`, and the picture of a report. Large fabrics are drawn fewer times, which is said.
"""

from dataclasses import replace
from typing import Any, Final

import yaml

from syncwall.answer import Prediction
from syncwall.answer.contention import UNPROVEN, step_on_links
from syncwall.cause import LEAST_SHARE
from syncwall.cost.contended_network import DRAWS, AxisFlows, SharedLinks
from syncwall.describe import Run
from syncwall.network.graph import Links
from syncwall.network.routing import Carried, Ends, flows_of_pair
from syncwall.plan.fabric.options import ratios_of, sized_named
from syncwall.plan.fabric.sized_links import links_of_sized
from syncwall.plan.placement.best_placement import slowed_step_s
from syncwall.plan.placement.placement_search import (
    JobTraffic,
    Nodes,
    SharedFabric,
    crossed,
    groups_of,
    traffic_of,
)
from syncwall.show.blocks import Cell, Table, sentence
from syncwall.show.contention import contention_words, drawn_words, flows_words
from syncwall.show.draw.flows import flows_drawing
from syncwall.show.numbers import duration, percent, plural
from syncwall.show.write.parts import Markup, markup, scrolled, table, tag, tile
from syncwall.web.answers.fabric import draws_for, draws_of, sized_kinds
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.questions import AskedFlows

_FAIR: Final = 4
"""Fair shares take about as long as routing so many flows."""
_NAMES: Final = ("job-a", "job-b")


def flows(asked: AskedFlows) -> dict[str, Any]:
    """Steps on shared links beside free ones, the busiest link, and links as wide as their load."""
    prediction = prediction_of(asked.run)
    run, copies = prediction.run, 1 if asked.jobs == "one" else 2
    ratios = ratios_of(run.cluster)
    ratio = asked.oversubscription or ratios[0]
    kind, _, made = sized_kinds(run, asked, ratios, copies)
    one = made(ratio)
    links = links_of_sized(one)
    name = kind if ratio == 1.0 else f"{kind},{ratio:g}"
    shared = SharedLinks(links, asked.routing, asked.qps, name=name)
    answer = _alone(asked, prediction, shared) if copies == 1 else _two(asked, prediction, shared)
    same = sized_named(kind, run.cluster.using(copies * run.nodes), (ratio, 1.0)) == one
    routed = f"--fabric {name} --routing {asked.routing} --qps {asked.qps}"
    return answer | {
        "html": _html(answer),
        "kind": kind,
        "fabric": name,
        "routing": asked.routing,
        "qps": asked.qps,
        "seed": shared.seed,
        "accuracy": UNPROVEN,
        "usual_draws": DRAWS,
        "flags": routed if same else None,
    }


def _html(answer: dict[str, Any]) -> Markup:
    """Numbers and sentences."""
    p50_s, free_s, jobs = answer["p50_s"], answer["free_s"], answer["jobs"]
    more = "as on free links"
    if p50_s is not None and answer["needed"]:
        p90 = duration(answer["p90_s"])
        more = f"+{percent(p50_s / free_s - 1, 1)} over free links, P90 {p90}"
    slower, link = answer["slower"], answer["busiest"] or "no link is busier than the NICs"
    tiles = (
        None if jobs else tile("flows-step", "Step on shared links", duration(p50_s), more, p50_s),
        tile("flows-slower", "Slowest job" if jobs else "Slow-down", f"{slower:.2f} ×", link, slower),
    )
    rows = tuple(
        (
            Cell(job["name"], "nowrap", row={"job": job["name"], "value": job["step_p50_s"]}),
            plural(job["nodes"], "node"),
            duration(free_s),
            duration(job["step_p50_s"]),
            Cell(
                f"+{percent(job['lost'], 1)}" if job["lost"] > LEAST_SHARE else "nothing",
                data={"lost": job["lost"]},
            ),
            duration(job["step_p90_s"]),
            f"{job['slower_p50']:.2f} ×",
        )
        for job in jobs
    )
    head = ("job", "nodes", "step alone", "together", "loses", "P90", "traffic slower")
    return markup(
        tag("div", tiles, class_="tiles"),
        scrolled("What each job loses", table(Table(head, rows))) if jobs else None,
        (tag("p", line, class_="small") for line in answer["said"]),
    )


def _alone(asked: AskedFlows, prediction: Prediction, shared: SharedLinks) -> dict[str, Any]:
    run = prediction.run
    order = None
    if asked.order == "crossed":
        order = crossed(groups_of(shared.links), range(run.nodes))
    draws = draws_of(run, shared.links, asked)
    shared = replace(shared, order=order, most_draws=draws)
    prices, _, found = step_on_links(run, prediction.pricing, shared)
    shown = next((one for one in found.flows if _id(one) == asked.flows), None)
    shown = shown or next(iter(found.flows), None)
    network = prices.network
    assert isinstance(network, SharedLinks)
    carried = network.carried(shown, run.cluster) if shown else None
    what = flows_words(shown, run.layout) if shown else ""
    return {
        "said": [
            sentence(line)
            for line in (*contention_words(found), *_fewer(shared.draws, shared.hashed, "predict"))
        ],
        "needed": found.needed,
        "draws": found.draws,
        "free_s": found.free_s,
        "p50_s": found.p50_s,
        "p90_s": found.p90_s,
        "busiest": found.busiest or None,
        "slower": found.slower,
        "flows": [
            {"id": _id(one), "name": flows_words(one, run.layout), "slower": one.slower}
            for one in found.flows
        ],
        "shown": _id(shown) if shown else None,
        "jobs": [],
        "svg": _picture(carried, f"{what} on {found.fabric}, {found.routing} routing"),
        "files": {} if order is None else {"ranks.txt": _lines(shared.links, order)},
    }


def _two(asked: AskedFlows, prediction: Prediction, shared: SharedLinks) -> dict[str, Any]:
    """Two copies of the run on nodes that stand apart or take turns."""
    run, links = prediction.run, shared.links
    traffic = [traffic_of(run)] * 2
    placed = _placed(asked, run.nodes, links)
    each = flows_of_pair(links, shared.routing, Ends.of(run.cluster), shared.qps)
    routed = _FAIR * sum(len(job.pairs) for job in traffic) * each
    fabric = SharedFabric(
        links, traffic, shared.routing, shared.qps, shared.seed, most_draws=draws_for(routed)
    )
    found = fabric.slower(placed)
    free_s = slowed_step_s(prediction, shared, 1.0)
    jobs = []
    for number, name in enumerate(_NAMES):
        p50, p90 = (float(found.quantile(share)[number]) for share in (0.5, 0.9))
        p50_s, p90_s = (slowed_step_s(prediction, shared, times) for times in (p50, p90))
        jobs.append(
            {
                "name": name,
                "nodes": run.nodes,
                "slower_p50": p50,
                "slower_p90": p90,
                "step_p50_s": p50_s,
                "step_p90_s": p90_s,
                "lost": p50_s / free_s - 1.0,
            }
        )
    draws = fabric.draws if fabric.hashed else 0
    how = drawn_words(shared.name, shared.routing, shared.qps, draws, shared.seed)
    said = _two_words(found.busiest, traffic[0], how)
    return {
        "said": [sentence(line) for line in (*said, *_fewer(fabric.draws, fabric.hashed, "plan placement"))],
        "needed": bool(found.quantile(0.9).max() > 1.0),
        "draws": fabric.draws,
        "free_s": free_s,
        "p50_s": None,
        "p90_s": None,
        "busiest": found.busiest or None,
        "slower": float(found.quantile(0.5).max()),
        "flows": [],
        "shown": None,
        "jobs": jobs,
        "svg": _picture(
            fabric.carried(placed), f"Two jobs on {shared.name}, {shared.routing} routing", _NAMES
        ),
        "files": {"jobs.yaml": _jobs_file(asked, run, links, placed)},
    }


def _two_words(busiest: str, job: JobTraffic, how: str) -> tuple[str, ...]:
    if not busiest:
        return (f"no shared link slows these jobs: none of this is needed ({how})",)
    send = f"each job sends along its {job.axis} axis, all of the time"
    return (f"{how}; {send}", f"the busiest link is {busiest}; {UNPROVEN}")


def _placed(asked: AskedFlows, nodes: int, links: Links) -> list[Nodes]:
    apart = [range(nodes), range(nodes, 2 * nodes)]
    turns = [range(0, 2 * nodes, 2), range(1, 2 * nodes, 2)]
    both = apart if asked.jobs == "apart" else turns
    if asked.order == "nodes":
        return [tuple(one) for one in both]
    leaves = groups_of(links)
    return [crossed(leaves, one) for one in both]


def _fewer(draws: int, hashed: bool, verb: str) -> tuple[str, ...]:
    if not hashed or draws == DRAWS:
        return ()
    return (
        f"so many flows are drawn {plural(draws, 'time')} here, to answer at once; "
        f"`syncwall {verb}` draws them {DRAWS} times, and its median may differ",
    )


def _id(one: AxisFlows) -> str:
    return f"{one.pattern}-{one.ranks}-{one.stride}"


def _picture(carried: Carried | None, title: str, jobs: tuple[str, ...] = ()) -> str | None:
    return None if carried is None else flows_drawing(carried, title, jobs).markup()


def _lines(links: Links, order: Nodes) -> str:
    return "".join(f"{links.nodes[node]}\n" for node in order)


def _jobs_file(asked: AskedFlows, run: Run, links: Links, placed: list[Nodes]) -> str:
    """What `plan placement` reads."""
    stated = {
        key: value for key, value in asked.run.fields().items() if key not in ("cluster", "nodes", "gpus")
    }
    jobs = [
        {"name": name, "run": stated, "placement": [links.nodes[node] for node in nodes]}
        for name, nodes in zip(_NAMES, placed, strict=True)
    ]
    whole = {"cluster": asked.run.cluster, "nodes": 2 * run.nodes, "jobs": jobs}
    return str(yaml.safe_dump(whole, sort_keys=False, default_flow_style=None, width=100))
