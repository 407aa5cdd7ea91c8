"""Pictures as SVG: charts, timelines, topologies, fabrics."""
