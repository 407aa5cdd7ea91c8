from syncwall import __version__
from syncwall.hosts import host_name
from syncwall.measure.result import Host, free_memory_bytes, this_host


def test_a_host_knows_itself(monkeypatch):
    monkeypatch.setenv("SYNCWALL_HOST", "n7")
    monkeypatch.setenv("NCCL_IB_HCA", "mlx5_0")
    monkeypatch.setenv("AWS_SECRET", "not for the file")
    host = this_host(("NVIDIA H100",))
    assert (host.name, host.accelerators) == ("n7", ("NVIDIA H100",))
    assert host.cores >= 1
    assert host.packages["syncwall"] == __version__
    assert host.environment["NCCL_IB_HCA"] == "mlx5_0"
    assert "AWS_SECRET" not in host.environment
    assert Host.model_validate_json(host.model_dump_json()) == host


def test_outside_a_lab_the_machine_names_the_host():
    assert host_name({}) != ""
    assert host_name({"SYNCWALL_HOST": "lab-a"}) == "lab-a"


def test_free_memory_is_less_than_all_memory():
    memory = this_host().memory_bytes
    assert 0 < free_memory_bytes() <= (memory or float("inf"))
