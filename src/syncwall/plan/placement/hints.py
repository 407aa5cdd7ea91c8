"""A placement in the words of schedulers.

Holds `hint_files`: of each job a host file for Slurm, the ranks of nodes for torchrun, and what
topology-aware scheduling by Kueue and by Volcano needs; of the fabric its leaf groups as Volcano's
HyperNodes. Sources: kueue.sigs.k8s.io/docs/tasks/run/topology_aware_scheduling (one annotation on
the Pod template, its value the node label of a level) and Volcano's "Network Topology Aware
Scheduling User Guide" (`networkTopology` of a Job: `hard` with the highest tier, or `soft`).
"""

from typing import Any, Final

import yaml

from syncwall.plan.placement.found import PlacedJob, PlacementAnswer

_LEAF_LABEL: Final = "cloud.provider.com/topology-rack"
"""The label of Kueue's own examples; a site has its own."""
_LEAF_TIER: Final = 1
"""Of HyperNodes whose members are nodes."""
HYPERNODES: Final = "hypernodes.yaml"


def hint_files(answer: PlacementAnswer, gpus_per_node: int) -> dict[str, str]:
    """Texts by the names of their files."""
    files = {HYPERNODES: _hypernodes(answer)}
    for job in answer.jobs:
        names = answer.names(job.found.nodes)
        files[f"{job.name}.hostfile"] = "".join(f"{name}\n" * gpus_per_node for name in names)
        files[f"{job.name}.torchrun"] = _torchrun(names, gpus_per_node)
        files[f"{job.name}.kueue.yaml"] = _kueue(job, names)
        files[f"{job.name}.volcano.yaml"] = _volcano(job, names)
    return files


def _torchrun(names: list[str], gpus_per_node: int) -> str:
    master = f"--master-addr={names[0]} --nnodes={len(names)} --nproc-per-node={gpus_per_node}"
    lines = [f"{name}: torchrun --node-rank={rank} {master}" for rank, name in enumerate(names)]
    return "# on each host; static rendezvous, which keeps the ranks\n" + "\n".join(lines) + "\n"


def _kueue(job: PlacedJob, names: list[str]) -> str:
    strength = "required" if job.found.groups == 1 else "preferred"
    annotations = {f"kueue.x-k8s.io/podset-{strength}-topology": _LEAF_LABEL}
    return _written(
        "Part of a Pod template. The label of leaf groups is that of Kueue's examples: write\n"
        "the one of your Topology. Ranks follow Kueue's own order inside of it.",
        {"metadata": {"annotations": annotations}, "spec": _on(names)},
    )


def _volcano(job: PlacedJob, names: list[str]) -> str:
    inside = {"mode": "hard", "highestTierAllowed": _LEAF_TIER}
    topology = inside if job.found.groups == 1 else {"mode": "soft"}
    task = {"replicas": len(names), "template": {"spec": _on(names)}}
    spec = {"schedulerName": "volcano", "minAvailable": len(names), "networkTopology": topology}
    return _written(
        f"Part of a Volcano Job. Tier {_LEAF_TIER} are the leaf groups of {HYPERNODES}.\n"
        "Ranks follow Volcano's own order of Pods inside of it.",
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "spec": spec | {"tasks": [task]},
        },
    )


def _on(names: list[str]) -> dict[str, Any]:
    """The part of a Pod that keeps it on certain nodes."""
    hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _hypernodes(answer: PlacementAnswer) -> str:
    """Leaf groups as HyperNodes of the first tier, and one of the second with all of them."""
    groups = [answer.names(tuple(nodes)) for nodes in answer.groups.nodes]
    leaves = [f"leaf-group-{number + 1}" for number in range(len(groups))]
    found = [
        _hypernode(leaf, _LEAF_TIER, "Node", nodes)
        for leaf, nodes in zip(leaves, groups, strict=True)
    ]
    if len(leaves) > 1:
        found.append(_hypernode("fabric", _LEAF_TIER + 1, "HyperNode", leaves))
    note = "The leaf groups of the fabric, for a cluster whose HyperNodes are not discovered."
    return _written(note, *found)


def _hypernode(name: str, tier: int, kind: str, members: list[str]) -> dict[str, Any]:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
            "metadata": {"name": name}, "spec": {"tier": tier, "members": chosen}}  # fmt: skip


def _written(note: str, *documents: dict[str, Any]) -> str:
    comment = "".join(f"# {line}\n" for line in note.splitlines())
    return comment + yaml.safe_dump_all(documents, sort_keys=False)
