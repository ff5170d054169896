"""A bar that shows how far a load is, in a terminal or in a notebook."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from typing import Any, TextIO

WIDTH = 30
# Seconds between two lines.
EVERY = 0.1
# The rate is that of about the last this many seconds.
RECENT = 5.0


class Bar:
    """Shows one line over and over: `` 43%|############..................| 1,234 documents [00:07<00:09,
    176/s]``: documents, elapsed and remaining time, and documents a second.

    A notebook shows it below the cell. In a terminal it is a line of stderr. Elsewhere, such as in
    a file, there is only the last line.

    It is called with the documents and the bytes so far, and the bytes of all input, or `None`.

    >>> import sys
    >>> bar = Bar(sys.stdout)
    >>> bar(1234, 50, 100)
    >>> bar.close()  # doctest: +ELLIPSIS
     50%|###############...............| 1,234 documents [00:00, ...]
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._display = _notebook() if to is None else None
        self._is_terminal = self._to.isatty()
        self._began = self._shown = self._now()
        self._length = 0
        self._last: tuple[int, int, int | None] | None = None
        # Moments, with the documents and the bytes then.
        self._recent = [(self._began, 0, 0)]

    @staticmethod
    def _now() -> float:
        return time.monotonic()

    def __call__(self, documents: int, done: int = 0, total: int | None = None) -> None:
        """Shows how far the load is."""
        self._last = (documents, done, total)
        now = self._now()
        if now - self._shown < EVERY:
            return
        self._shown = now
        self._recent.append((now, documents, done))
        while len(self._recent) > 2 and now - self._recent[1][0] > RECENT:
            del self._recent[0]
        if self._display is not None or self._is_terminal:
            self._show(self._line(documents, done, total, self._recent[0], now))

    def close(self) -> None:
        """Shows the last line: all documents, the time and the rate of the whole load."""
        if self._last is None:
            return
        line = self._line(*self._last, (self._began, 0, 0), self._now(), is_last=True)
        if self._display is not None:
            self._show(line)
        elif self._is_terminal:
            self._show(line)
            self._to.write("\n")
        else:
            self._to.write(line + "\n")
        self._to.flush()

    def _line(
        self,
        documents: int,
        done: int,
        total: int | None,
        since: tuple[float, int, int],
        now: float,
        is_last: bool = False,
    ) -> str:
        began, documents_then, done_then = since
        seconds = now - began
        rate = (documents - documents_then) / seconds if seconds > 0 else 0.0
        times = _clock(now - self._began)
        before = ""
        if total:
            part = min(done / total, 1.0)
            filled = int(WIDTH * part)
            # Rounded down: 100% is all of it.
            before = f"{int(100 * part):3}%|{'#' * filled}{'.' * (WIDTH - filled)}| "
            if not is_last:
                bytes_left, read = total - done, done - done_then
                times += "<" + (_clock(bytes_left * seconds / read) if read > 0 else "?")
        return f"{before}{documents:,} documents [{times}, {rate:,.0f}/s]"

    def _show(self, line: str) -> None:
        if self._display is not None:
            self._display.update(_Line(line))
            return
        # A line that is wrapped could not be written over.
        line = line[: shutil.get_terminal_size().columns - 1]
        self._to.write("\r" + line.ljust(self._length))
        self._to.flush()
        self._length = len(line)


class _Line:
    """Text as a notebook shows it, without the quotes of a `str`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _clock(seconds: float) -> str:
    """Returns a time as `mm:ss`, or as `h:mm:ss`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def _notebook() -> Any:
    """Returns the handle of a display below the cell, or `None` outside of a notebook."""
    # A kernel has imported it; nothing else should.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # A terminal's shell of IPython has no kernel.
    if shell is None or not hasattr(shell, "kernel"):
        return None
    # With display_id it returns a handle, whose update replaces what is shown.
    return importlib.import_module("IPython.display").display(_Line("0 documents"), display_id=True)


def of(given: Any) -> Any:
    """Returns what a load calls for the argument `progress`: a `Bar`, a function, or `None`."""
    if given is None or given is False:
        return None
    if given is True:
        return Bar()
    if not callable(given):
        raise TypeError(
            f"progress: expected True for a bar, or a function, found {type(given).__name__}"
        )
    return given


__all__ = ["Bar", "of"]
