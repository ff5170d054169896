"""The first documents of a collection or a query as a table, for notebooks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping
from typing import Any

from .errors import Error

ROWS = 10
COLUMNS = 12
TEXT = 60


def table(of: Any) -> str:
    """Returns the table in HTML. A collection or query is read no further than it shows."""
    rows = list(itertools.islice(of.items() if hasattr(of, "items") else of, ROWS + 1))
    names: dict[str, None] = {}
    for _, document in rows[:ROWS]:
        if isinstance(document, Mapping):
            names.update(dict.fromkeys(document))
    shown = list(names)[:COLUMNS]
    lines = [f"<p><code>{html.escape(repr(of))}</code></p>", "<table>", "<thead><tr>"]
    lines += [f"<th>{html.escape(str(name))}</th>" for name in ["key", *shown]]
    lines += ["</tr></thead>", "<tbody>"]
    for key, document in rows[:ROWS]:
        cells = [_cell(key)]
        if isinstance(document, Mapping):
            cells += [_cell(document[name]) if name in document else "" for name in shown]
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
    return "\n".join(lines)


def _cell(value: Any) -> str:
    try:
        text = value.json() if hasattr(value, "json") else str(value)
    except Error:
        # A part has no JSON form.
        text = repr(value)
    if len(text) > TEXT:
        text = text[: TEXT - 1] + "\u2026"
    return html.escape(text)


__all__ = ["table"]
