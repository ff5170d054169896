"""A wrong argument is an exception of the right class that names it."""

from __future__ import annotations

import datetime
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flagstone
import pytest

Call = Callable[[flagstone.Database], object]


def c(db: flagstone.Database) -> Any:
    return db.collection("c")


def kv(db: flagstone.Database) -> Any:
    return db.keyspace("kv")


def opened(**options: Any) -> Call:
    return lambda db: flagstone.open(db.path / "other", **options)


PAST = datetime.timedelta(seconds=-1)

RANGES: dict[str, list[Call]] = {
    "limit: expected an int from 0 on, found -1": [lambda db: c(db).find(limit=-1)],
    "skip: expected an int from 0 on, found -1": [lambda db: c(db).find(skip=-1)],
    "sample: expected an int from 0 on": [
        lambda db: c(db).arrow(sample=-1), lambda db: c(db).find().arrow(sample=-1)
    ],
    "batch_rows: expected": [lambda db: c(db).arrow(batch_rows=n) for n in (-1, 0, 2**70)],
    "threads: expected": [
        lambda db: c(db).arrow(threads=-1), lambda db: c(db).arrow().batches(threads=-1)
    ],
    "retries: expected an int from 0 on": [lambda db: db.transact(repr, retries=-1)],
    "compaction_workers: expected an int from 0 on": [opened(compaction_workers=-1)],
    "document_bytes_max: expected an int": [opened(document_bytes_max=-1)],
    "expires: expected a time from 0 on": [
        lambda db: kv(db).put(b"a", b"", expires=PAST), lambda db: c(db).put("a", 1, expires=PAST)
    ],
    "keep_changes: expected a time from 0 on": [opened(keep_changes=PAST)],
    "timeout: expected seconds from 0 on": [lambda db: db.changes(timeout=-1)],
    "keeps no changes: open it with keep_changes$": [lambda db: db.changes()],
    r"at most 16777216 \(option document_bytes_max\)": [
        lambda db: c(db).put("a", {"t": "x" * (17 << 20)})
    ],
}  # fmt: skip

TYPES: dict[str, list[Call]] = {
    "limit: expected an int from 0 on, found True": [lambda db: c(db).find(limit=True)],
    "skip: expected an int from 0 on, found 1.0": [lambda db: c(db).find(skip=1.0)],
    "sample: expected an int": [lambda db: c(db).arrow(sample=True)],
    "retries: expected an int": [lambda db: db.transact(repr, retries=True)],
    "work: expected a function of a transaction, found 5": [lambda db: db.transact(5)],  # type: ignore[arg-type]
    "compaction_workers: expected an int": [opened(compaction_workers=True)],
    "read_only: expected True or False, found 1": [opened(read_only=1)],
    "path: expected a path, found 5": [
        lambda db: flagstone.open(5), lambda db: db.backup(5)  # type: ignore[arg-type]
    ],
    "decimal: expected text, found 5": [opened(decimal=5)],
    "memory: expected a number of bytes": [opened(memory=[])],
    "name: expected text, found 5": [
        lambda db: db.keyspace(5), lambda db: db.collection(5), lambda db: db.drop(5),  # type: ignore[arg-type]
        lambda db: c(db).create_index(5, "x"),
    ],
    "start: expected text, found 5": [
        lambda db: db.changes(start=5), lambda db: kv(db).changes(5), lambda db: c(db).changes(5)  # type: ignore[arg-type]
    ],
    "names: expected a list of text, found": [
        lambda db: db.changes(names="c"), lambda db: c(db).arrow().select("_key")
    ],
    "fields: expected paths as text": [lambda db: c(db).create_index("i", ("x",))],
    "sort: expected a path as text, or a list": [lambda db: c(db).find(sort=5)],
    "columns: expected a dict": [lambda db: c(db).arrow(5), lambda db: c(db).find(columns=[5])],
    "column a: expected a path, or a pair": [lambda db: c(db).arrow({"a": 5})],
    "path: expected text, found 5": [
        lambda db: c(db).get("a", path=5), lambda db: c(db).find().distinct(5)
    ],
    "type: expected a class or a function, found 5": [lambda db: c(db).get("a", type=5)],
    "files: expected a path, found 5": [lambda db: c(db).load(5), lambda db: c(db).load([5])],
    "progress: expected True for a bar, or a function, found int": [
        lambda db: c(db).load("f", progress=5), lambda db: c(db).load_arrow(c(db), progress=5)
    ],
    r"by keyword, such as update\(key, set=": [lambda db: c(db).update("a", {"v": 2})],
    "update: expected .*a mapping or pairs": [
        lambda db: c(db).update("a"), lambda db: c(db).update(5), lambda db: kv(db).update(5)
    ],
    "inc: expected a dict of paths and values, found 5": [lambda db: c(db).update("a", inc=5)],
    "unset: expected a path, or a list of them, found 5": [lambda db: c(db).update("a", unset=5)],
}  # fmt: skip


@pytest.mark.parametrize("text", RANGES)
def test_a_value_out_of_range_is_invalid_input(text: str, db: flagstone.Database) -> None:
    c(db)["a"] = {"x": 1}
    for call in RANGES[text]:
        with pytest.raises(flagstone.InvalidInput, match=text):
            call(db)


@pytest.mark.parametrize("text", TYPES)
def test_a_wrong_type_is_a_type_error(text: str, db: flagstone.Database) -> None:
    c(db)["a"] = {"x": 1}
    for call in TYPES[text]:
        with pytest.raises(TypeError, match=text):
            call(db)


def test_sequences_and_mappings_are_taken_as_lists_and_dicts(
    db: flagstone.Database, tmp_path: Path
) -> None:
    docs = c(db)
    docs["a"] = {"x": 1, "y": 2}
    assert docs.find(sort=("-x", "y"), fields=("x",)).first() == ("a", {"x": 1})
    assert docs.arrow(("$.x",)).types == {"x": "int64"}
    assert docs.arrow(types.MappingProxyType({"n": ["$.y", "text"]})).types == {"n": "text"}
    assert list(docs.arrow().select(("x",)).types) == ["x"]
    docs.update("a", unset=("y",), set=types.MappingProxyType({"z": 3}))
    assert docs["a"] == {"x": 1, "z": 3}
    file = tmp_path / "f.jsonl"
    file.write_text('{"id":1}\n')
    for files in ((file,), os.fsencode(file), [os.fsencode(file)], iter([str(file)])):
        assert docs.load(files)["documents"] == 1
    with flagstone.open(os.fsencode(tmp_path / "bytes")) as other:
        assert other.path == tmp_path / "bytes"


def test_a_lone_surrogate_is_no_name(db: flagstone.Database) -> None:
    docs = c(db)
    docs["a"] = {"x": 1}
    assert "\ud800" not in docs["a"] and docs["a"].get("\ud800", 5) == 5
    with pytest.raises(KeyError):
        docs["a"]["\ud800"]
    with pytest.raises(TypeError, match="name: expected text without lone surrogates"):
        db.keyspace("\ud800")


def test_nat_says_what_it_is(db: flagstone.Database) -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"\$\.at: pandas.NaT is no point in time"):
        c(db)["a"] = {"at": pd.NaT}
    with pytest.raises(TypeError, match=r"\$\.n: .*NAType is not .*; None is a value"):
        c(db)["a"] = {"n": pd.NA}


def test_a_conflict_shows_the_primary_key(db: flagstone.Database) -> None:
    for key, shown in (("evn2i5p", '"evn2i5p"'), (7, "7"), (("a", 1), '["a",1]')):
        for serializable in (False, True):
            with pytest.raises(flagstone.Conflict) as raised:
                with db.transaction(serializable=serializable) as tx:
                    tx[c(db)].get(key)
                    c(db)[key] = {}
                    tx[c(db)][key if not serializable else "other"] = {}
            assert str(raised.value).startswith(f'key {shown} of keyspace "c" was written at #')
