"""A bar that shows how far a load is, in a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30
EVERY = 0.1


class Bar:
    """Writes one line over and over: ``[######......] 1,234 documents, 56 % in 7 s``.

    It is called with the documents and the bytes so far, and the bytes of all input, or `None`.
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._began = time.monotonic()
        self._written = 0.0
        self._length = 0

    def __call__(self, documents: int, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._written < EVERY and done != total:
            return
        self._written = now
        text = f"{documents:,} documents"
        if total:
            part = min(done / total, 1.0)
            filled = round(WIDTH * part)
            text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {text}, {part:.0%}"
        text += f" in {now - self._began:.0f} s"
        self._to.write("\r" + text.ljust(self._length))
        self._to.flush()
        self._length = len(text)

    def close(self) -> None:
        """Ends the line."""
        if self._length:
            self._to.write("\n")
            self._to.flush()


__all__ = ["Bar"]
