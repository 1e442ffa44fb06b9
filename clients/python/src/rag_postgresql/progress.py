"""A progress bar for syncs."""

from __future__ import annotations

import sys
from typing import TextIO

from .records import Progress

_WIDTH = 24


class Bar:
    """One line of a terminal, which is written again and again."""

    def __init__(self, label: str, file: TextIO | None = None) -> None:
        self._label = label
        self._file = file or sys.stderr
        self._written = 0

    def __call__(self, progress: Progress) -> None:
        total = progress.total
        share = min(1.0, progress.done / total) if total else 0.0
        bar = "█" * round(share * _WIDTH)
        of = total if total is not None else "?"
        self._write(
            f"{self._label} {bar:░<{_WIDTH}} {progress.done}/{of} documents,"
            f" {progress.chunks} chunks"
        )

    def _write(self, line: str) -> None:
        self._file.write("\r" + line.ljust(self._written))
        self._file.flush()
        self._written = len(line)

    def end(self, line: str) -> None:
        self._write(f"{self._label}: {line}")
        self._file.write("\n")
