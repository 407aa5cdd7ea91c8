"""What a wheel holds compressed: tables, sources, words, findings, scripts and styles of pages.

A build hook of hatchling; a checkout and an editable install have them as they are.
"""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKED = (
    "syncwall/catalogue/*/*.csv",
    "syncwall/catalogue/sources.yaml",
    "syncwall/show/terms.yaml",
    "syncwall/web/static/**/*.js",
    "syncwall/web/static/**/*.css",
)


class PackedFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `NAME.gz` for every such file, which the wheel leaves out, and the findings."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is put together."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        source, findings = Path(self.root, "src"), Path(self.root, "examples", "findings")
        for pattern in _PACKED:
            for path in sorted(source.glob(pattern)):
                self._pack(path, path.relative_to(source).as_posix(), build_data)
        for path in sorted(findings.iterdir()):
            inside = f"syncwall/findings/{path.name}"
            if path.suffix == ".json":
                self._pack(path, inside, build_data)
            else:
                build_data["force_include"][str(path)] = inside

    def _pack(self, path: Path, inside: str, build_data: dict[str, Any]) -> None:
        packed = Path(self._folder.name, f"{len(build_data['force_include'])}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        packed.chmod(0o644)
        build_data["force_include"][str(packed)] = f"{inside}.gz"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After it."""
        if version != "editable":
            self._folder.cleanup()
