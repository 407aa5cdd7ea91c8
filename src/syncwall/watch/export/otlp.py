"""Figures for OpenTelemetry, sent as OTLP over HTTP.

Holds `OtlpExport`.
"""

from collections.abc import Iterator
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.watch.export.figures import ALL, Figure, figures
from syncwall.watch.recent import Recent

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
            raise InputError.of(f"{error.name} is missing: pip install 'syncwall[otel]'") from None
        self._recent = recent
        exporter = OTLPMetricExporter(endpoint=endpoint)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
        resource = Resource.create({"service.name": "syncwall"})
        self._provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("syncwall")
        for figure in ALL:
            make = (
                meter.create_observable_counter
                if figure.kind == "counter"
                else meter.create_observable_gauge
            )
            make(figure.name, [self._observed(figure)], figure.unit, figure.help)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown(timeout_millis=3000)

    def _observed(self, figure: Figure) -> Any:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterator[Any]:
            for sample in figures(self._recent):
                if sample.figure is figure:
                    for labels, value in sample.values:
                        yield Observation(value, dict(labels))

        return observe
