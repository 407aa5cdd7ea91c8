"""What variables ask of an agent."""

from http.client import HTTPConnection

import pytest

from syncwall.watch.exporters import LIFE, PROMETHEUS, STEPS, WEBHOOK, Exporters
from syncwall.watch.life import life_of, read_life
from syncwall.watch.summary import read_snapshot
from tests.watch import lives


def test_all_that_is_asked_for_is_told(tmp_path, monkeypatch):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    given = {PROMETHEUS: "127.0.0.1:0", LIFE: str(tmp_path / "life.jsonl"), STEPS: "1000"}
    outlets = Exporters(tmp_path, given)
    monkeypatch.setattr("syncwall.watch.exporters._LIFE_EVERY_S", 0.0)
    for number in range(8):
        outlets.round(lives.live(number))
    port = outlets._closed[0].port
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    assert 'syncwall_steps_total{node="node-a",rank="0"} 80.0' in text
    assert "syncwall_goodput_ratio" in text
    assert 'syncwall_remaining_seconds{quantile="0.5"}' in text
    outlets.close()
    found = read_snapshot(tmp_path)
    assert found.goodput is not None
    assert found.status().state == "ended", "its agent has left"
    assert life_of(read_life(tmp_path / "life.jsonl")).steps == 80


def test_what_cannot_be_opened_is_said_and_the_rest_goes_on(tmp_path, capsys):
    outlets = Exporters(tmp_path, {WEBHOOK: "ftp://x", LIFE: str(tmp_path / "life.jsonl")})
    assert "a webhook begins with http" in capsys.readouterr().err
    outlets.round(lives.live())
    outlets.close()
    assert (tmp_path / "life.jsonl").exists()
