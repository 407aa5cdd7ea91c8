"""Figures for Prometheus, over HTTP.

Holds `PrometheusEndpoint` and `checked_address`. It answers on this machine's own address; on
another one only to who shows the token ("Authorization: Bearer ..."), and on its own address only
under its own names, so that pages of other sites cannot ask.
"""

import hmac
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from syncwall.hosts import LOOPBACK
from syncwall.problems import InputError
from syncwall.watch.export.figures import figures
from syncwall.watch.recent import Recent

_Start = Callable[[str, list[tuple[str, str]]], Any]


class PrometheusEndpoint:
    """`http://ADDRESS/metrics`, answered by a thread of the agent."""

    def __init__(self, recent: Recent, address: str = "127.0.0.1:9464", token: str = "") -> None:
        """InputError if the address is taken, or open to others without a token."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError:
            raise InputError.of(
                "prometheus_client is missing: pip install 'syncwall[watch]'"
            ) from None
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
        """Answer no more."""
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

        for sample in figures(self._recent):
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
