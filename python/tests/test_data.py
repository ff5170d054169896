"""Real documents: each set is loaded, and compared with what `json.loads` makes of its lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import flagstone
import pytest

pa = pytest.importorskip("pyarrow")

HERE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("FLAGSTONE_DATA", HERE))

# Each set, its primary key, and how many of its documents are read, in megabytes of lines.
SETS = {
    "reddit_comments_ira2018": ("id", 7),
    "reddit_submissions_2013": ("id", 12),
    "gharchive_2015": ("id", 12),
    "tate_artworks": ("id", 12),
    "wikipedia_movies": ("title", 12),
    "mitre_attack_stix": ("id", 12),
    "google_discovery": ("id", 12),
}


def lines(name: str, megabytes: int) -> Iterator[bytes]:
    """The first lines of a set."""
    with pa.input_stream(DATA / f"{name}.jsonl.zst", compression="zstd") as stream:
        text = stream.read(megabytes * 1_000_000)
    yield from text[: text.rindex(b"\n") + 1].splitlines()


def same(stored: Any, column: Any) -> bool:
    """Whether a cell of a table says what a value of a document says."""
    if isinstance(column, dict):
        # A struct has the fields of all its rows.
        return isinstance(stored, dict) and all(
            same(stored.get(name), column.get(name)) for name in stored.keys() | column.keys()
        )
    if isinstance(column, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(column)
            and all(map(same, stored, column))
        )
    if isinstance(stored, bool) != isinstance(column, bool) and not isinstance(column, str):
        return False
    if isinstance(column, float) and isinstance(stored, (int, Decimal)):
        return Decimal(repr(column)) == stored
    if stored == column:
        return True
    # A column of JSON text, or of the text of numbers.
    try:
        return isinstance(column, str) and bool(loads(column.encode()) == stored)
    except ValueError:
        return False


def loads(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data sets in {DATA}: set FLAGSTONE_DATA")
@pytest.mark.parametrize("name", SETS)
def test_a_set_of_real_documents_comes_back_equal(name: str, tmp_path: Path) -> None:
    key, megabytes = SETS[name]
    read = list(lines(name, megabytes))
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(read))
    # Of several documents of one key the last one stays.
    expected = {document[key]: document for document in map(loads, read)}
    assert len(expected) > 20
    with flagstone.open(tmp_path / "db", memory="256MiB", decimal="always") as db:
        c = db.collection("c")
        done = c.load(file, key=key)
        assert done["documents"] == len(read)
        assert len(c) == len(expected)
        for primary, document in c.items():
            assert document.to_dict() == expected[primary], primary
        some = list(expected)[:: max(1, len(expected) // 100)]
        assert all(loads((c.get_json(primary) or "").encode()) == expected[primary] for primary in some)

        source = c.find().arrow(sample=len(expected) + 1)
        rows = 0
        for batch in pa.RecordBatchReader.from_stream(source):
            for row in batch.to_pylist():
                primary = row.pop("_key")
                document = expected[primary]
                assert document.keys() <= row.keys(), primary
                for column, cell in row.items():
                    assert same(document.get(column), cell), (primary, column)
                rows += 1
        assert rows == len(expected)


def test_a_cell_is_compared_by_what_it_says() -> None:
    equal: list[tuple[Any, Any]] = [
        (None, None),
        ("a", "a"),
        ("a", '"a"'),
        (1, 1),
        (1, 1.0),
        (Decimal("1.10"), "1.10"),
        ([1, {"a": 2}], '[1,{"a":2}]'),
        ({"a": 1}, {"a": 1, "b": None}),
        (True, True),
    ]
    for stored, column in equal:
        assert same(stored, column), (stored, column)
    different: list[tuple[Any, Any]] = [
        (None, "a"),
        ("a", None),
        (1, 2),
        (1, True),
        (1, "2"),
        ([1], [2]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ([1], "[2]"),
    ]
    for stored, column in different:
        assert not same(stored, column), (stored, column)
