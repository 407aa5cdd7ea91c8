import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.measure.links import circle, rounds
from syncwall.measure.suspects import Samples, slow_against, suspects
from tests.measure.ranks import started

HOSTS = [["a", "b", "c"], ["a", "b", "c", "d"], list("aabbcc"), list("abcdefgh")]


def samples(hosts, rng, *, slow="", factor=1.0, way="both", noise=0.12, repeats=9) -> Samples:
    """Rates of 1 GB/s between hosts and 4 inside, with noise; `slow` reaches `factor` of it."""
    ends = [link for pairs in rounds(hosts) for a, b in pairs for link in ((a, b), (b, a))]
    rates = []
    for source, target in ends:
        between = hosts[source] != hosts[target]
        hit = (hosts[source] == slow and way != "receiving") or (hosts[target] == slow and way != "sending")
        rate = (1e9 if between else 4e9) * (factor if hit and between else 1.0)
        rates.append(rate * np.clip(1 + noise * rng.standard_normal(repeats), 0.3, 2.0))
    sources, targets = np.array(ends).T
    return Samples(sources, targets, np.array(rates).T)


@given(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=24))
def test_every_pair_meets_once_and_nobody_twice_in_a_round(hosts):
    met: Counter[tuple[int, int]] = Counter()
    for pairs in rounds(hosts):
        ranks = [rank for pair in pairs for rank in pair]
        assert len(ranks) == len(set(ranks))
        assert len({hosts[a] == hosts[b] for a, b in pairs}) == 1  # only like with like
        met.update(pairs)
    every = {(a, b) for b in range(len(hosts)) for a in range(b)}
    assert met == dict.fromkeys(every, 1)


@given(st.integers(2, 33))
def test_a_circle_needs_as_few_rounds_as_there_can_be(count):
    assert len(list(circle(count))) == count - 1 + count % 2


def test_above_64_ranks_there_is_a_tournament_of_bounded_length():
    hosts = [f"n{rank // 8}" for rank in range(1024)]
    drawn = rounds(hosts)
    assert len(drawn) == 63 + 7
    assert drawn == rounds(hosts)
    assert {rank for pair in drawn[-1] for rank in pair} == set(range(1024))


@pytest.mark.parametrize("hosts", HOSTS, ids="".join)
def test_of_200_noisy_healthy_clusters_none_is_accused(hosts):
    rng = np.random.default_rng(5)
    assert not any(suspects(samples(hosts, rng), hosts) for _ in range(50))


@pytest.mark.parametrize("hosts", HOSTS, ids="".join)
@pytest.mark.parametrize("factor", [0.6, 0.35])
def test_of_200_slow_hosts_each_is_named(hosts, factor):
    rng = np.random.default_rng(6)
    for _ in range(25):
        found = suspects(samples(hosts, rng, slow="b", factor=factor), hosts)
        assert [(one.host, one.where) for one in found] == [("b", "between hosts")]
        assert found[0].ratio == pytest.approx(factor, abs=0.1)
        assert found[0].sure >= 0.95
        assert set(found[0].ranks) == {rank for rank, host in enumerate(hosts) if host == "b"}


@pytest.mark.parametrize("way", ["sending", "receiving"])
def test_a_host_slow_one_way_is_named_with_the_way(way):
    rng = np.random.default_rng(7)
    for _ in range(20):
        (found,) = suspects(samples("abcd", rng, slow="c", factor=0.5, way=way), "abcd")
        assert (found.host, found.way) == ("c", way)
        assert found.slower > 0.95 * found.compared
        assert f"host c: {way} between hosts at 0." in found.what


def test_one_slow_nic_of_a_host_is_named_by_its_rank():
    rng = np.random.default_rng(8)
    hosts = list("aabbcc")
    given_ = samples(hosts, rng)
    hit = (given_.sources == 3) | (given_.targets == 3)
    inside = given_.sources // 2 == given_.targets // 2
    rates = np.where(hit & ~inside, 0.5, 1.0) * given_.rates
    (found,) = suspects(Samples(given_.sources, given_.targets, rates), hosts)
    assert (found.host, found.ranks) == ("b", (3,))
    assert found.what.startswith("host b, rank 3: ")


def test_one_slow_link_is_named_as_a_link():
    given_ = samples("abcd", np.random.default_rng(9))
    hit = (given_.sources == 1) & (given_.targets == 3)
    rates = np.where(hit, 0.3, 1.0) * given_.rates
    (found,) = suspects(Samples(given_.sources, given_.targets, rates), "abcd")
    assert (found.host, found.ranks) == ("b – d", (1, 3))


def test_two_hosts_are_compared_only_with_what_is_expected():
    given_ = samples("ab", np.random.default_rng(10))
    assert suspects(given_, "ab") == ()
    assert slow_against(given_, "ab", 1e9) == ()
    found = slow_against(given_, "ab", 2e9)
    assert {one.ranks for one in found} == {(0, 1), (1, 0)}
    assert found[0].ratio == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_three_ranks_measure_each_other(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "links.json"
    words = ("--backend", "gloo", "--repeats", "5", "--size", "4MiB", "--json", str(path))
    ranks = started(("a", "b", "c"), "-m", "syncwall", "measure", "links", *words)
    codes = [rank.end(90) for rank in ranks]
    result = json.loads(path.read_text())
    assert codes == [1 if result["data"]["suspects"] else 0, 0, 0], [rank.err for rank in ranks]
    assert len(result["data"]["rows"]) == 6
    assert result["data"]["size_bytes"] == 4 * 2**20
    assert "Rate from the rank on the left" in ranks[0].out
    assert (ranks[1].out, ranks[2].out) == ("", "")
