"""Who an agent tells of its rounds: lines of JSON, Prometheus, OpenTelemetry, alerts.

Holds `Exporters`, all listeners that variables of the environment ask for, and the names of those
variables; `EventLines` (JSON lines in a file), `SaidLines`, `said` and `read_lines`; `Figure`,
`Sample` and `figures`, the only place of names, units and help texts of figures; `Alerts`, new
findings for a webhook or a command, delivered by a thread so that a slow receiver delays nobody;
`OtlpExport`; `PrometheusEndpoint`, which answers on this machine's own address, on another one only
to who shows the token ("Authorization: Bearer ..."), and on its own address only under its own
names, so that pages of other sites cannot ask. What cannot be opened is said once, and the rest
goes on.
"""

import hmac
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Full, Queue
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from syncwall.hosts import LOOPBACK
from syncwall.problems import InputError, visible
from syncwall.watch.devices import DeviceState, Limit
from syncwall.watch.events import FORMAT, Finding, FindingKey, RankState, StepWindow, to_json
from syncwall.watch.life import LifeFile, outlook, rates_of
from syncwall.watch.model_flops import stated_flops
from syncwall.watch.summary import (
    Listener,
    Live,
    RankTotals,
    Recent,
    SnapshotFile,
    Summary,
    median_step_s,
)
from syncwall.watch.trackers import Tracking


class EventLines:
    """Appends a line for each thing that is new; a line is written at once and whole."""

    def __init__(self, path: str) -> None:
        """A file, or "-" for standard output."""
        name: str | int = sys.stdout.fileno() if path == "-" else path
        self._file = open(name, "a", encoding="utf-8", buffering=1, closefd=path != "-")  # noqa: SIM115 - a descriptor, open to the end
        self._windows: dict[int, int] = {}
        self._ranks: dict[int, tuple[int, str]] = {}
        self._told: set[FindingKey] = set()

    def round(self, live: Live) -> None:
        """Write what is new since the round before."""
        for finding in live.new:
            self._write("finding", live.now_s, finding)
        for finding in live.told:
            if finding.key not in self._told:
                self._write("told", live.now_s, finding)
        self._told = {finding.key for finding in live.told}
        for report in live.reports:
            for state in report.ranks:
                before = self._ranks.get(state.rank)
                if before == (state.pid, state.process):
                    continue
                if before is not None and before[0] != state.pid:
                    self._windows.pop(state.rank, None)  # started anew, its steps begin at 0
                self._ranks[state.rank] = state.pid, state.process
                self._write("rank", live.now_s, state)
            for window in report.windows:
                if self._is_new(window):
                    self._write("window", live.now_s, window)

    def end(self, summary: Summary) -> None:
        """The last line."""
        self._write("summary", 0.0, summary)

    def _is_new(self, window: StepWindow) -> bool:
        if window.first <= self._windows.get(window.rank, -1):
            return False
        self._windows[window.rank] = window.first
        return True

    def _write(self, event: str, now_s: float, value: Any) -> None:
        head = json.dumps({"event": event, "format": FORMAT, "time_s": now_s})
        body = to_json(value).decode()
        self._file.write(f"{head[:-1]}, {body[1:]}\n")

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class SaidLines:
    """Says new findings on standard error, where the output of the training goes."""

    def round(self, live: Live) -> None:
        """A line for each."""
        for one in live.new:
            when = time.strftime("%H:%M:%S", time.localtime(live.now_s))
            print(f"syncwall watch: {when} {said(one)}", file=sys.stderr, flush=True)


def said(finding: Finding) -> str:
    """A finding as one line, of which a terminal obeys nothing: parts come from other nodes."""
    rank = "" if finding.rank is None else f" {finding.rank}"
    node = f" on {finding.node}" if finding.node else ""
    return visible(f"{finding.kind}{rank}{node}: {finding.evidence}").replace("\n", r"\n")


Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with a name."""

    name: str
    """As in Prometheus, without "_total" of counters."""
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    unit: str = "1"
    """As in OpenTelemetry (UCUM)."""


@dataclass(slots=True)
class Sample:
    """A figure with its values, each with its labels."""

    figure: Figure
    values: list[tuple[Labels, float]] = field(default_factory=list)


STEP: Final = Figure("syncwall_step_seconds", "Median time of the latest steps of a rank.", unit="s")
STEP_COUNT: Final = Figure("syncwall_steps", "Optimizer steps since the rank was watched.", "counter")
SPENT: Final = Figure(
    "syncwall_spent_seconds", "Time of steps by cause; the causes sum to all of it.", "counter", "s"
)
TOKENS: Final = Figure("syncwall_tokens", "Tokens that a rank has trained on.", "counter")
LOSS: Final = Figure("syncwall_loss", "Loss of the latest step.")
NORM: Final = Figure("syncwall_gradient_norm", "Gradient norm of the latest step.")
UP: Final = Figure("syncwall_rank_up", "1 while the process of a rank runs, 0 if not.")
SILENT: Final = Figure("syncwall_rank_silent_seconds", "Time since a rank's last mark.", unit="s")
FINDING: Final = Figure("syncwall_finding", "1 while a finding of a judge holds.")
FINDINGS: Final = Figure("syncwall_findings", "Findings so far.", "counter")
ECC: Final = Figure(
    "syncwall_device_ecc_errors", "Memory errors of a GPU that ECC could not correct.", "counter"
)
XID: Final = Figure("syncwall_device_xid_errors", "Xid errors of a GPU while watched.", "counter")
LIMITED: Final = Figure(
    "syncwall_device_limited", "1 while heat, power brake or power limit hold clocks of a GPU down."
)
PREDICTED: Final = Figure(
    "syncwall_predicted_step_seconds", "The predicted step, and its interval.", unit="s"
)
TOKENS_PER_S: Final = Figure("syncwall_tokens_per_second", "Tokens/s of the ranks of this node.")
MFU: Final = Figure("syncwall_mfu_ratio", "Model FLOPs utilization, recomputation not counted.")
GOODPUT: Final = Figure("syncwall_goodput_ratio", "Share of the job's wall time in steps that count.")
FINISH: Final = Figure("syncwall_remaining_seconds", "Time until the job is done: P10, P50, P90.", unit="s")
ALL: Final = (
    STEP,
    STEP_COUNT,
    SPENT,
    TOKENS,
    LOSS,
    NORM,
    UP,
    SILENT,
    FINDING,
    FINDINGS,
    ECC,
    XID,
    LIMITED,
    PREDICTED,
    TOKENS_PER_S,
    MFU,
    GOODPUT,
    FINISH,
)


def metrics(recent: Recent) -> list[Sample]:
    """All figures that have a value now, each once."""
    found = {figure.name: Sample(figure) for figure in ALL}
    for figure, labels, value in _values(recent):
        found[figure.name].values.append((labels, float(value)))
    return [sample for sample in found.values() if sample.values]


def _values(recent: Recent) -> Iterator[tuple[Figure, Labels, float]]:
    live = recent.live
    if live is None:
        return
    for state in live.ranks:
        if state.rank in recent.totals:
            yield from _of_rank(state, recent.totals[state.rank], live.now_s)
    for device in live.devices:
        yield from _of_device(device)
    for one in live.findings:
        labels = {"rank": _text(one.rank), "node": one.node, "device": _text(one.device)}
        yield FINDING, {"kind": str(one.kind), **labels}, 1.0
    for kind, number in recent.counted.items():
        yield FINDINGS, {"kind": str(kind)}, number
    if live.expected is not None:
        expected = live.expected
        bounds = ("low", expected.low_s), ("middle", expected.step_s), ("high", expected.high_s)
        for bound, seconds in bounds:
            yield PREDICTED, {"bound": bound}, seconds
    for figure, value in (
        (TOKENS_PER_S, recent.tokens_per_s),
        (MFU, recent.mfu),
        (GOODPUT, recent.goodput),
    ):
        if value is not None:
            yield figure, {}, value
    for quantile, seconds in zip(("0.1", "0.5", "0.9"), recent.finish_s or (), strict=False):
        yield FINISH, {"quantile": quantile}, seconds


def _of_device(one: DeviceState) -> Iterator[tuple[Figure, Labels, float]]:
    labels = {"device": str(one.device), "rank": _text(one.rank), "node": one.node}
    if one.ecc_errors is not None:
        yield ECC, labels, one.ecc_errors
    yield XID, labels, one.xid_count
    for limit in Limit:
        yield LIMITED, {**labels, "by": str(limit)}, limit in one.limited_s


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _of_rank(state: RankState, total: RankTotals, now_s: float) -> Iterator[tuple[Figure, Labels, float]]:
    labels = {"rank": str(state.rank), "node": state.node}
    yield UP, labels, state.process == "running"
    if not state.process.is_over:
        yield SILENT, labels, max(now_s - state.phase_since_s, 0.0)
    yield STEP_COUNT, labels, total.steps
    for cause, spent_s in total.seconds.items():
        yield SPENT, {**labels, "cause": str(cause)}, spent_s
    if total.tokens:
        yield TOKENS, labels, total.tokens
    step_s = median_step_s(total)
    if step_s is not None:
        yield STEP, labels, step_s
        latest = total.latest[-1]
        for figure, value in ((LOSS, latest.loss), (NORM, latest.gradient_norm)):
            if value is not None:
                yield figure, labels, value


_TIMEOUT_S: Final = 10.0
_WAITING: Final = 100


class Alerts:
    """Tells of each finding once, when it is new.

    A webhook gets JSON by POST; its `text` is what chat programs show. A command gets the same on
    its standard input.
    """

    def __init__(self, webhook: str = "", command: str = "") -> None:
        self._webhook = checked_webhook(webhook) if webhook else ""
        self._command = shlex.split(command)
        self._waiting: Queue[bytes | None] = Queue(_WAITING)
        self._thread = Thread(target=self._deliver, name="alerts", daemon=True)
        self._thread.start()

    def round(self, live: Live) -> None:
        """Hand new findings over."""
        for one in live.new:
            try:
                self._waiting.put_nowait(alert(one))
            except Full:
                _say("too many findings at once: not all are delivered")

    def close(self) -> None:
        """Deliver what is waiting, for a while."""
        self._waiting.put(None)
        self._thread.join(_TIMEOUT_S)

    def _deliver(self) -> None:
        while (body := self._waiting.get()) is not None:
            for way in (self._post, self._run):
                try:
                    way(body)
                except (OSError, URLError, ValueError, subprocess.SubprocessError) as error:
                    _say(f"an alert was not delivered: {error}")

    def _post(self, body: bytes) -> None:
        if self._webhook:
            headers = {"Content-Type": "application/json"}
            request = Request(self._webhook, body, headers)  # noqa: S310 - http or https, checked
            with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                pass

    def _run(self, body: bytes) -> None:
        if self._command:
            subprocess.run(  # noqa: S603 - the user's own command
                self._command,
                input=body,
                timeout=_TIMEOUT_S,
                check=True,
                stdout=subprocess.DEVNULL,
            )


def checked_webhook(address: str) -> str:
    """The address; InputError if it is none of the web."""
    if not address.startswith(("http://", "https://")):
        raise InputError.of(f"{address}: a webhook begins with http:// or https://")
    return address


def alert(finding: Finding) -> bytes:
    """What is delivered."""
    body: dict[str, Any] = {"text": f"syncwall: {said(finding)}"}
    return json.dumps(body | {"finding": json.loads(to_json(finding))}).encode()


def _say(text: str) -> None:
    print(f"syncwall watch: {text}", file=sys.stderr, flush=True)


_EVERY_S: Final = 10.0


class OtlpExport:
    """Sends all figures every ten seconds, by threads of the SDK; headers, certificates and so on
    are those of OTEL_EXPORTER_OTLP_* variables.
    """

    def __init__(self, recent: Recent, endpoint: str, every_s: float = _EVERY_S) -> None:
        """`endpoint` is that of metrics, such as http://127.0.0.1:4318/v1/metrics."""
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            needed = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
            raise InputError.of(f"{error.name} is missing: pip install {needed}") from None
        self._recent = recent
        exporter = OTLPMetricExporter(endpoint=endpoint)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
        resource = Resource.create({"service.name": "syncwall"})
        self._provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("syncwall")
        for figure in ALL:
            make = (
                meter.create_observable_counter if figure.kind == "counter" else meter.create_observable_gauge
            )
            make(figure.name, [self._observed(figure)], figure.unit, figure.help)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown(timeout_millis=3000)

    def _observed(self, figure: Figure) -> Any:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterator[Any]:
            for sample in metrics(self._recent):
                if sample.figure is figure:
                    for labels, value in sample.values:
                        yield Observation(value, dict(labels))

        return observe


_Start = Callable[[str, list[tuple[str, str]]], Any]


class PrometheusEndpoint:
    """`http://ADDRESS/metrics`, answered by a thread of the agent."""

    def __init__(self, recent: Recent, address: str = "127.0.0.1:9464", token: str = "") -> None:
        """InputError if the address is taken, or open to others without a token."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError:
            raise InputError.of("prometheus_client is missing: pip install prometheus_client") from None
        host, port = checked_address(address, token)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(recent))
        guarded = _guarded(make_wsgi_app(registry), host in LOOPBACK, token)
        try:
            self._server = make_server(host, port, guarded, _Server, _Quiet)
        except (OSError, OverflowError) as error:
            raise InputError.of(f"{address}: {error}") from None
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, name="prometheus", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def checked_address(address: str, token: str) -> tuple[str, int]:
    """Host and port; InputError if it is none, or open to others without a token."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal():
        raise InputError.of(f"{address}: write an address and a port, such as 127.0.0.1:9464")
    if host not in LOOPBACK and not token:
        raise InputError.of(f"{address}: others could ask too: set SYNCWALL_TOKEN")
    return host, int(port)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 10
    """Seconds for a request to come."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Write nothing into the output of the training."""


class _Collector:
    """Figures as families of prometheus_client."""

    def __init__(self, recent: Recent) -> None:
        self._recent = recent

    def collect(self) -> Iterator[Any]:
        """One family a figure."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for sample in metrics(self._recent):
            figure = sample.figure
            names = list(sample.values[0][0])
            kind = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
            family = kind(figure.name, figure.help, labels=names)
            for labels, value in sample.values:
                family.add_metric([labels[name] for name in names], value)
            yield family


def _guarded(app: Any, is_local: bool, token: str) -> Any:
    """The application for who may ask."""

    def answer(environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        refused = _refusal(environ, is_local, token)
        if refused:
            start(refused, [("Content-Type", "text/plain")])
            return [f"{refused}\n".encode()]
        found: Iterable[bytes] = app(environ, start)
        return found

    return answer


def _refusal(environ: dict[str, Any], is_local: bool, token: str) -> str:
    name = environ.get("HTTP_HOST", "").rsplit(":", 1)[0].strip("[]").lower()
    if is_local and name not in LOOPBACK:
        return "421 Misdirected Request"
    shown = environ.get("HTTP_AUTHORIZATION", "").encode()
    if token and not hmac.compare_digest(shown, f"Bearer {token}".encode()):
        return "401 Unauthorized"
    return "" if environ.get("PATH_INFO") in ("/metrics", "/") else "404 Not Found"


PROMETHEUS: Final = "SYNCWALL_WATCH_PROMETHEUS"
"""Address and port of the endpoint, such as 127.0.0.1:9464."""
OTLP: Final = "SYNCWALL_WATCH_OTLP"
"""Where metrics are sent to, such as http://127.0.0.1:4318/v1/metrics."""
WEBHOOK: Final = "SYNCWALL_WATCH_WEBHOOK"
ALERT: Final = "SYNCWALL_WATCH_ALERT"
TO: Final = "SYNCWALL_WATCH_TO"
"""Trackers, as `watch.trackers` calls them: wandb mlflow tensorboard:DIR."""
LIFE: Final = "SYNCWALL_WATCH_LIFE"
"""File that all starts of a job share."""
SINCE: Final = "SYNCWALL_WATCH_SINCE"
"""When the command was started, since the epoch."""
STEPS: Final = "SYNCWALL_WATCH_STEPS"
"""Steps of the whole job, to say when it will be done."""
TOKEN: Final = "SYNCWALL_TOKEN"  # noqa: S105 - the name of the variable
_LIFE_EVERY_S: Final = 15.0
_LIFE_SHARE: Final = 0.002
"""Of a core, at most, for looking back at a long life and ahead."""


class Exporters:
    """All listeners of one agent."""

    def __init__(self, home: Path, given: Mapping[str, str]) -> None:
        self.recent = Recent()
        self._home = home
        self._life: LifeFile | None = None
        self._look_s = 0.0
        self._steps = int(given[STEPS]) if given.get(STEPS, "").isdecimal() else None
        self._listeners: list[Listener] = [self.recent]
        self._closed: list[Any] = []
        for name, open_one in self._ways(given).items():
            if given.get(name):
                self._open(open_one)
        for word in shlex.split(given.get(TO, "")):
            self._open(partial(Tracking, self.recent, home, word))
        self._closed.append(SnapshotFile(self.recent, home))
        self._listeners.append(self._closed[-1])

    def _ways(self, given: Mapping[str, str]) -> dict[str, Callable[[], Any]]:
        token = given.get(TOKEN, "")
        return {
            PROMETHEUS: lambda: PrometheusEndpoint(self.recent, given[PROMETHEUS], token),
            OTLP: lambda: OtlpExport(self.recent, given[OTLP]),
            WEBHOOK: lambda: Alerts(webhook=given[WEBHOOK]),
            ALERT: lambda: Alerts(command=given[ALERT]),
            LIFE: lambda: LifeFile(Path(given[LIFE]), float(given.get(SINCE) or time.time())),
        }

    def _open(self, open_one: Callable[[], Any]) -> None:
        try:
            found = open_one()
        except (InputError, OSError, ValueError) as error:
            print(f"syncwall watch: {error}", file=sys.stderr, flush=True)
            return
        self._closed.append(found)
        if isinstance(found, LifeFile):
            self._life = found
        if hasattr(found, "round"):
            self._listeners.append(found)

    def round(self, live: Live) -> None:
        """Tell everybody."""
        for one in self._listeners:
            with suppress(Exception):  # the others are told, whatever one of them does
                one.round(live)
        if live.now_s >= self._look_s:
            began_s = time.process_time()
            with suppress(Exception):
                self._look_ahead(live)
            took_s = time.process_time() - began_s
            self._look_s = live.now_s + max(_LIFE_EVERY_S, took_s / _LIFE_SHARE)

    def close(self) -> None:
        """Send and write what is left."""
        for one in self._closed:
            with suppress(Exception):
                one.close()

    def _look_ahead(self, live: Live) -> None:
        """Figures that are not worth a look at every round."""
        stated = stated_flops(self._home, live.expected)
        self.recent.flops_per_token, self.recent.peak_flops = stated
        if self._life is None or not self._life.path.exists():
            return
        life = self._life.life(live.now_s)
        self.recent.goodput = life.goodput
        rates = rates_of(life)
        if rates is not None and self._steps is not None:
            self.recent.finish_s = outlook(rates, self._steps - life.steps)
