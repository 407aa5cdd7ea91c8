"""`measure node`: one host, its site file, and what it refuses."""

import pytest

import syncwall as sw
from syncwall.answer.known import SiteFile
from syncwall.cli.measure_node import refuse_other_device
from syncwall.describe.lookup import cluster
from syncwall.describe.reading import read
from syncwall.measure.node import node_of
from tests.measure.ranks import started


@pytest.mark.parametrize(
    ("name", "hosts", "on_cpu", "said"),
    [
        (None, ("a", "b"), True, "on 2 hosts, and one is measured"),
        (None, ("a",), False, "missing --cluster: the machine that this node is of; try dgx-h100"),
        ("dgx-h100", ("a",), True, "dgx-h100 has h100-sxm, and this node has no GPU"),
        ("laptop", ("a",), False, "laptop has cpu-laptop, and this node has GPUs"),
        ("dgx-h100", ("a",) * 9, False, "a node of dgx-h100 has 8 GPUs, and here are 9 ranks"),
    ],
)
def test_what_is_no_node_of_the_cluster_is_refused(name, hosts, on_cpu, said):
    with pytest.raises(sw.InputError, match=said):
        node_of(name, hosts, on_cpu=on_cpu)


def test_part_of_a_node_is_that_part():
    found = node_of("dgx-h100", ("a",) * 4, on_cpu=False)
    assert (found.nodes, found.gpus) == (1, 4)


def test_another_device_than_the_cluster_has_is_refused():
    refuse_other_device(cluster("dgx-h100"), "NVIDIA H100 80GB HBM3")
    refuse_other_device(cluster("dgx-h100"), "a device that nobody knows")
    with pytest.raises(sw.InputError, match="dgx-h100 has h100-sxm, and this node has b200"):
        refuse_other_device(cluster("dgx-h100"), "NVIDIA B200")


@pytest.mark.slow
def test_two_ranks_write_a_site_file(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    site = tmp_path / "site.yaml"
    words = ("-m", "syncwall", "measure", "node", "--seconds", "0.02", "--steps", "3", "--seq", "16")
    ranks = started(("a", "a"), *words, "--save", str(site))
    assert [rank.end(240) for rank in ranks] == [0, 0], ranks[0].err
    found = read(site, SiteFile)
    assert found.calibration.device == "cpu"
    assert found.calibration.knobs == ("gemm", "attention", "elementwise", "network")
    assert {table.ranks for table in found.calibration.collectives} == {2}
    assert "--site" in ranks[0].out
    known = sw.predict(found.known_runs[0], site=found.site())
    plain = sw.predict(found.known_runs[0])
    measured_s = known.seconds_of(found.known_runs[0].measured)
    assert abs(known.step_s / measured_s - 1) < abs(plain.step_s / measured_s - 1)
