"""Links of files that people have, and the order of ranks."""

import pytest

from syncwall.describe import lookup
from syncwall.network.graph import pooled
from syncwall.problems import InputError
from syncwall.read.detect import read_fabric
from syncwall.read.fabric_links import links_of_graph, rank_order
from tests.read import topology_samples as samples

SLURM = """\
# topology/tree
SwitchName=leaf1 Nodes=node[1-4]
SwitchName=leaf2 Nodes=node[5-7],spare LinkSpeed=900
SwitchName=top Switches=leaf[1-2]
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="fabric"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_slurm_says_what_hangs_below_what(written):
    graph = read_fabric(written(SLURM))
    assert graph.format == "slurm"
    assert graph.hosts == (*(f"node{number}" for number in range(1, 8)), "spare")
    links = pooled(links_of_graph(graph, lookup.cluster("dgx-h100")))
    assert links.nodes[:2] == ("node1", "node2")
    assert links.nics_per_node == 8
    up = links.tier[links.ends[:, 0]] == 1
    assert links.rates[2 * links.nics :][up].tolist() == [4 * 8 * 50e9] * 2


def test_slurm_lists_have_several_ranges_and_brackets(written):
    """What the names of a real topology.conf look like."""
    text = "SwitchName=s1 Nodes=r[1-2]n[08-10,12].ib\nSwitchName=s2 Nodes=login[1,3]\n"
    text += "SwitchName=top Switches=s[1-2]\n"
    graph = read_fabric(written(text))
    assert len(graph.hosts) == 2 * 4 + 2
    assert {"r1n08.ib", "r2n12.ib", "login3"} < set(graph.hosts)
    assert {node.name for node in graph.switches} == {"s1", "s2", "top"}


def test_a_list_that_is_none_is_refused_with_its_file(written):
    path = written("SwitchName=s1 Nodes=node[4-1]\n")
    with pytest.raises(InputError, match=rf'{path}: "node\[4-1\]": "4-1" is no number'):
        read_fabric(path)


def test_topograph_has_the_same_shape(written):
    graph = read_fabric(written(samples.TOPOGRAPH))
    links = links_of_graph(graph, lookup.cluster("dgx-h100"))
    assert len(links.nodes) == len(graph.hosts)
    assert links.distance.max() < 127


def test_cables_of_infiniband_keep_their_rates(written):
    text = 'Switch\t4 "S-1"\n' + "".join(
        f'[{port}]\t"H-{port}"[1](1) \t\t# "node{port} mlx5_0" lid 1 4xHDR\n' for port in (1, 2)
    )
    text = "vendid=0x2c9\n" + text
    cluster = lookup.cluster("dgx-h100")
    links = links_of_graph(read_fabric(written(text)), cluster)
    assert links.nodes == ("node1", "node2")
    assert set(links.rates) == {25e9}


def test_a_host_with_other_cables_than_the_cluster_is_refused(written):
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\nSwitchName=c Switches=a,b\n"
    with pytest.raises(InputError, match="n1 has 2 cables, a node of the cluster 8 NICs"):
        links_of_graph(read_fabric(written(text)), lookup.cluster("dgx-h100"))


def test_the_order_of_ranks_is_a_hostfile(written):
    links = links_of_graph(read_fabric(written(SLURM)), lookup.cluster("dgx-h100"))
    assert rank_order(written("node3\nnode3\nnode1 # first\n\n", "order"), links) == (2, 0)
    with pytest.raises(InputError, match='no node "node9"'):
        rank_order(written("node9\n", "order"), links)
    with pytest.raises(InputError, match="twice"):
        rank_order(written("node1\nnode2\nnode1\n", "order"), links)
