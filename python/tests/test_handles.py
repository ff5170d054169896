"""What all handles have: weak references, and errors that name the argument."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flagstone
import pytest


def test_handles_have_weak_references(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "db", keep_changes="1MiB") as db:
        kv, c = db.keyspace("kv"), db.collection("c")
        c["a"] = {"n": 1}
        handles: list[Any] = [
            kv, c, iter(kv), iter(c), c.find(), c.arrow(), c.arrow().batches(), db.batch(),
            db.transaction(), db.snapshot(), db.changes(),
        ]  # fmt: skip
        references = [weakref.ref(handle) for handle in handles]
        assert all(reference() is not None for reference in references)
        cache = weakref.WeakValueDictionary({"kv": kv})
        del handles, kv, c
        gc.collect()
        assert [reference() for reference in references] == [None] * len(references)
        assert not cache and weakref.ref(db)() is db


WRONG: dict[str, Callable[[Any, Path], object]] = {
    "name: expected text, found 5": lambda db, _: db.keyspace(5),
    "name: expected text, found None": lambda db, _: db.collection(None),
    "create: expected True or False, found 'no'": lambda db, _: db.keyspace("a", create="no"),
    "start: expected text, found 5": lambda db, _: db.changes(start=5),
    "start: expected text, found b'x'": lambda db, _: db.keyspace("kv").changes(b"x"),
    "names: expected a list of text, found 'kv'": lambda db, _: db.changes(names="kv"),
    "timeout: expected a timedelta or seconds": lambda db, _: db.changes(timeout="1s"),
    "read_only: expected True or False, found 1": lambda _, path: flagstone.open(
        path / "new",
        read_only=1,  # type: ignore[arg-type]
    ),
    "path: expected a path, found 5": lambda _, path: flagstone.open(5),  # type: ignore[arg-type]
    "serializable: expected True or False": lambda db, _: db.transaction(serializable=1),
    "retries: expected an int from 0 on": lambda db, _: db.transact(len, retries="5"),
    "limit: expected an int from 0 on": lambda db, _: db.collection("c").find(limit="5"),
    "path: expected text, found 5": lambda db, _: db.collection("c").get("a", path=5),
    "reverse: expected True or False": lambda db, _: db.keyspace("kv").keys(reverse=1),
    "fields: expected paths as text, found 5": lambda db, _: db.collection("c").create_index("i", 5),
    "threads: expected an int": lambda db, _: db.collection("c").arrow(threads=1.5),
    "bad_lines: expected a path": lambda db, _: db.collection("c").load("x", bad_lines=True),
    "progress: expected True for a bar, or a function, found int": lambda db, _: db.collection(
        "c"
    ).load("x", progress=5),
    "source: expected a Collection or a Find, found int": lambda _, path: flagstone.scan(
        5  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_type_is_an_error_that_names_the_argument(
    text: str, db: flagstone.Database, tmp_path: Path
) -> None:
    with pytest.raises(TypeError) as raised:
        WRONG[text](db, tmp_path)
    assert str(raised.value).startswith(text)
