"""Variables and settings that cost time."""

import pytest

import syncwall as sw
from syncwall.describe import Layout, Run
from syncwall.explain.finding import RULES
from syncwall.explain.logs import check_environment

RUN = Run(
    model=sw.model("llama-3.1-8b"),
    cluster=sw.cluster("dgx-h100", nodes=16),
    layout=Layout(shard="ddp", tp=8, micro_batch=1),
    seq=4096,
)


def whats(settings, **known):
    return [finding.what for finding in check_environment(settings, **known)]


def test_an_empty_environment_has_no_findings():
    assert check_environment({}) == ()
    assert check_environment({}, run=RUN) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_ALGO", "Ring"),
        ("NCCL_PROTO", "LL"),
        ("NCCL_NVLS_ENABLE", "0"),
        ("TORCH_NCCL_BLOCKING_WAIT", "1"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"),
        ("broadcast_buffers", "True"),
        ("find_unused_parameters", "true"),
    ],
)
def test_a_costly_value_is_found(name, value):
    assert whats({name: value}) == [f"{name}={value}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("NCCL_P2P_DISABLE", "0"),
        ("NCCL_NVLS_ENABLE", "1"),
        ("NCCL_DEBUG", "INFO"),
        ("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        ("NCCL_ALGO", ""),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("broadcast_buffers", "False"),
        ("NCCL_MAX_NCHANNELS", "32"),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo"),
        ("bucket_cap_mb", "what"),
    ],
)
def test_a_harmless_value_is_not(name, value):
    assert whats({name: value}) == []


def test_every_rule_says_why_and_what_to_do():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.why and rule.next for rule in RULES)


def test_rules_take_any_text():
    for rule in RULES:
        for text in ("", "x" * 1000, "-1", "1e400", "²", "9" * 5000):
            check_environment({rule.name: text})


def test_threads_are_counted_against_processors():
    many = {"OMP_NUM_THREADS": "64"}
    assert "64 for 8 processes on 128" in whats(many, cpus=128, processes=8)[0]
    assert whats({"OMP_NUM_THREADS": "16"}, cpus=128, processes=8) == []
    assert "is not set" in whats({}, cpus=128, processes=8)[0]
    assert whats({}, cpus=128, processes=1) == []


def test_the_model_prices_what_it_can():
    found = {
        f.what.split("=")[0]: f
        for f in check_environment(
            {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "1"}, run=RUN
        )
    }
    assert (found["NCCL_P2P_DISABLE"].slowdown or 0) > 1
    assert (found["NCCL_IB_DISABLE"].slowdown or 0) > 1
    assert found["CUDA_LAUNCH_BLOCKING"].slowdown is None


def test_few_adapters_by_name_are_found_and_priced():
    (finding,) = check_environment({"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, run=RUN)
    assert finding.what == "NCCL_IB_HCA names 2 of 8 adapters"
    assert (finding.slowdown or 0) > 1
    assert whats({"NCCL_IB_HCA": "mlx5"}, run=RUN) == []  # a prefix of all names
    assert whats({"NCCL_IB_HCA": "^mlx5_8"}, run=RUN) == []


def test_small_buckets_cost_latency():
    (small,) = check_environment({"bucket_cap_mb": "1"}, run=RUN)
    assert (small.slowdown or 0) > 1
    assert whats({"bucket_cap_mb": "100"}, run=RUN) == []


def test_interfaces_that_lead_nowhere():
    assert "loopback" in whats({"NCCL_SOCKET_IFNAME": "lo"}, run=RUN)[0]
    assert "virtual" in whats({"NCCL_SOCKET_IFNAME": "docker0"})[0]
    assert whats({"NCCL_SOCKET_IFNAME": "ens1f0"}) == []
