"""The first documents of a collection or a query as a table, for notebooks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping
from typing import Any

ROWS = 10
COLUMNS = 12
TEXT = 60


def table(of: Any) -> str:
    """Returns the table in HTML. A collection or query is read no further than it shows. It never
    raises: a notebook would show nothing then.
    """
    lines = [f"<p><code>{html.escape(repr(of))}</code></p>"]
    try:
        lines += _table(of)
    except Exception as error:
        text = f"{type(error).__name__}: {_text(error)}"
        lines.append(f"<p>{html.escape(text)}</p>")
    return "\n".join(lines)


def _table(of: Any) -> list[str]:
    rows = list(itertools.islice(of.items() if hasattr(of, "items") else of, ROWS + 1))
    names: dict[Any, None] = {}
    for _, document in rows[:ROWS]:
        if isinstance(document, Mapping):
            names.update(dict.fromkeys(document))
    shown = list(names)[:COLUMNS]
    lines = ["<table>", "<thead><tr>"]
    lines += [f"<th>{_cell(name)}</th>" for name in ["key", *shown]]
    lines += ["</tr></thead>", "<tbody>"]
    for key, document in rows[:ROWS]:
        cells = [_cell(key)]
        if isinstance(document, Mapping):
            cells += [_cell(_Field(document, name)) if name in document else "" for name in shown]
        else:
            cells.append(_cell(document))
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    lines += ["</tbody>", "</table>"]
    left_out = []
    if len(rows) > ROWS:
        left_out.append(f"the first {ROWS} documents")
    if len(names) > COLUMNS:
        left_out.append(f"{COLUMNS} of {len(names)} fields")
    if left_out:
        lines.append(f"<p>{' and '.join(left_out)}</p>")
    return lines


class _Field:
    """A field that is read when it is shown: a value that Python does not have raises then."""

    def __init__(self, document: Mapping[Any, Any], name: Any) -> None:
        self._document, self._name = document, name

    def __str__(self) -> str:
        return _text(self._document[self._name])


def _cell(value: Any) -> str:
    text = _text(value)
    if len(text) > TEXT:
        text = text[: TEXT - 1] + "\u2026"
    return html.escape(text)


def _text(value: Any) -> str:
    # JSON does not support every document, nor Python every datetime.
    for form in (_json, str, repr):
        try:
            return form(value)
        except Exception:
            continue
    return f"<{type(value).__name__}>"


def _json(value: Any) -> str:
    return str(value.json() if hasattr(value, "json") else value)


__all__ = ["table"]
