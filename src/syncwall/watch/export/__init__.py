"""What an agent tells other programs: Prometheus, OpenTelemetry, alerts, of the same figures."""
