import pytest

from syncwall.cost.algorithm_choices import algorithm_choices
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.describe import lookup
from syncwall.work.operations import Collective, Group


@pytest.mark.parametrize("gpus", [8, 64, 1024])
@pytest.mark.parametrize("size", [2.0**12, 25 * 2.0**20, 2.0**31])
def test_the_fastest_way_is_the_price(gpus, size):
    cluster = lookup.cluster("dgx-h100")
    network, group = NcclNetwork(cluster, calibration(cluster.device).network), Group("dp", gpus)
    found = algorithm_choices(network, cluster, "all-reduce", size, group)
    priced = float(network.collective_seconds(Collective("all-reduce", size, group)))
    assert found[0].seconds == pytest.approx(priced, rel=1e-12)
    assert {"Ring", "Tree"} <= {way.algorithm for way in found}
    assert all(0 <= way.start_s <= way.seconds for way in found)


def test_one_rank_has_no_way():
    cluster = lookup.cluster("dgx-h100")
    network = NcclNetwork(cluster, calibration(cluster.device).network)
    assert algorithm_choices(network, cluster, "all-reduce", 1e6, Group("dp", 1)) == []
