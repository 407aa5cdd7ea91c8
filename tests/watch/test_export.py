"""Figures reach Prometheus, OpenTelemetry, webhooks and commands as they are."""

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from syncwall.problems import InputError
from syncwall.watch.exporters import Alerts, metrics
from tests.watch import lives

EXAMPLES = Path(__file__).parents[2] / "examples" / "watch"


def value(samples, name, **labels):
    (found,) = [
        number
        for sample in samples
        if sample.figure.name == name
        for with_, number in sample.values
        if dict(with_) == labels
    ]
    return found


def test_figures_are_those_of_the_ranks():
    found = metrics(lives.recent())
    rank = {"rank": "1", "node": "node-a"}
    assert value(found, "syncwall_steps", **rank) == 40
    assert value(found, "syncwall_step_seconds", **rank) == pytest.approx(0.1)
    assert value(found, "syncwall_tokens", **rank) == 40 * 2048
    assert value(found, "syncwall_finding", kind="hung rank", device="", **rank) == 1
    assert value(found, "syncwall_goodput_ratio") == 0.93
    assert value(found, "syncwall_tokens_per_second") == pytest.approx(2 * 20480)
    (spent,) = [one for one in found if one.figure.name == "syncwall_spent_seconds"]
    of_one = [number for labels, number in spent.values if labels["rank"] == "1"]
    assert sum(of_one) == pytest.approx(40 * 0.1)


def endpoint(address="127.0.0.1:0", token=""):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    from syncwall.watch.exporters import PrometheusEndpoint

    return PrometheusEndpoint(lives.recent(), address, token)


def answered(port, path="/metrics", **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def asked(port, path="/metrics", **headers):
    status, text = answered(port, path, **headers)
    assert status == 200
    return text


def test_metrics_pass_promtool():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    served = endpoint()
    text = asked(served.port)
    served.close()
    assert 'syncwall_finding{device="",kind="hung rank",node="node-a",rank="1"} 1.0' in text
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_rules_and_the_configuration_pass_promtool(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    shutil.copytree(EXAMPLES, tmp_path / "watch")
    (tmp_path / "watch" / "token").write_text("secret-token")
    for what, name in (("rules", "rules.yaml"), ("config", "prometheus.yaml")):
        words = ["promtool", "check", what, name]
        done = subprocess.run(words, cwd=tmp_path / "watch", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("headers", "code"),
    [({"Host": "evil.example"}, 421), ({}, 401), ({"Authorization": "Bearer wrong"}, 401)],
)
def test_strangers_are_refused(headers, code):
    served = endpoint(token="right-token")
    right = {"Authorization": "Bearer right-token"}
    assert answered(served.port, **headers)[0] == code
    assert answered(served.port, "/other", **right)[0] == 404
    assert "syncwall_steps" in asked(served.port, **right)
    served.close()


def test_an_address_that_others_reach_needs_a_token():
    with pytest.raises(InputError, match="SYNCWALL_TOKEN"):
        endpoint("0.0.0.0:0")


def test_an_address_that_is_taken_is_named():
    served = endpoint()
    with pytest.raises(InputError, match=f"127.0.0.1:{served.port}"):
        endpoint(f"127.0.0.1:{served.port}")
    served.close()


@pytest.mark.slow
def test_prometheus_scrapes_and_an_alert_fires(tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    served = endpoint(token="right-token")
    (tmp_path / "token").write_text("right-token")
    shutil.copy(EXAMPLES / "rules.yaml", tmp_path)
    (tmp_path / "prometheus.yaml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: syncwall
    authorization: {{credentials_file: token}}
    static_configs: [{{targets: ["127.0.0.1:{served.port}"]}}]
""")
    port = _free_port()
    prometheus = subprocess.Popen(
        [
            "prometheus",
            "--config.file=prometheus.yaml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        firing = _until(lambda: _firing(port), 60)
        steps = json.loads(asked(port, "/api/v1/query?query=syncwall_steps_total"))
    finally:
        prometheus.kill()
        prometheus.wait()
        served.close()
    assert firing == {("TrainingStands", "1", "node-a")}
    found = {one["metric"]["rank"]: one["value"][1] for one in steps["data"]["result"]}
    assert found == {"0": "40", "1": "40"}


def _firing(port):
    alerts = json.loads(asked(port, "/api/v1/alerts"))["data"]["alerts"]
    return {
        (one["labels"]["alertname"], one["labels"]["rank"], one["labels"]["node"])
        for one in alerts
        if one["state"] == "firing"
    }


def _free_port():
    with receiver() as (port, _):
        return port


def _until(check, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if found := check():
                return found
        except (OSError, AssertionError):
            pass
        time.sleep(0.25)
    return check()


@contextmanager
def receiver():
    """A server that keeps what is posted to it."""
    bodies = []

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeps)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, bodies
    finally:
        server.shutdown()
        server.server_close()


def test_a_receiver_of_otlp_gets_the_same_numbers():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="no OTLP exporter")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    from syncwall.watch.exporters import OtlpExport

    recent = lives.recent()
    with receiver() as (port, bodies):
        sent = OtlpExport(recent, f"http://127.0.0.1:{port}/v1/metrics")
        sent.close()
    path, body = bodies[-1]
    assert path == "/v1/metrics"
    request = ExportMetricsServiceRequest.FromString(body)
    found = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        points = metric.sum.data_points or metric.gauge.data_points
        for point in points:
            labels = tuple(sorted((one.key, one.value.string_value) for one in point.attributes))
            found[metric.name, labels] = point.as_double
    expected = {
        (sample.figure.name, tuple(sorted(labels.items()))): number
        for sample in metrics(recent)
        for labels, number in sample.values
    }
    assert found == expected
    assert len(found) > 20


def test_an_alert_is_posted_and_given_to_a_command_once(tmp_path):
    kept = tmp_path / "kept"
    write = f"import sys, pathlib; pathlib.Path({str(kept)!r}).write_text(sys.stdin.read())"
    with receiver() as (port, bodies):
        alerts = Alerts(f"http://127.0.0.1:{port}/hook", f'{sys.executable} -c "{write}"')
        alerts.round(lives.live(0))
        alerts.round(lives.live(1, findings=(lives.HUNG,), new=(lives.HUNG,)))
        alerts.round(lives.live(2, findings=(lives.HUNG,)))
        alerts.close()
    ((path, body),) = bodies
    assert path == "/hook"
    told = json.loads(body)
    assert told["text"] == 'syncwall: hung rank 1 on node-a: rank 1 in "data" for 5.0 s'
    assert told["finding"]["kind"] == "hung rank"
    assert json.loads(kept.read_text()) == told


def test_what_cannot_be_delivered_is_said(capfd):
    alerts = Alerts("http://127.0.0.1:1/hook", "false")
    alerts.round(lives.live(0, findings=(lives.HUNG,), new=(lives.HUNG,)))
    alerts.close()
    assert capfd.readouterr().err.count("an alert was not delivered") == 2


def test_a_webhook_is_an_address():
    with pytest.raises(InputError, match="http://"):
        Alerts("file:///etc/passwd")
