"""`pop`, `popitem` and `setdefault` of several threads: each has one winner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import flagstone
import pytest

THREADS = 4
KEYS = 2_000


@pytest.fixture(params=["keyspace", "collection"])
def mapping(request: pytest.FixtureRequest, db: flagstone.Database) -> Any:
    return db.keyspace("kv") if request.param == "keyspace" else db.collection("c")


def key(n: int) -> bytes:
    return n.to_bytes(4, "big")


def in_threads(work: Callable[[int], list[Any]]) -> list[list[Any]]:
    """Returns what each thread has returned; all begin at once."""
    found: list[list[Any]] = [[] for _ in range(THREADS)]
    begin = threading.Barrier(THREADS)

    def run(thread: int) -> None:
        begin.wait()
        found[thread] = work(thread)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_each_key_is_popped_once(mapping: Any) -> None:
    mapping.update((key(n), key(n)) for n in range(KEYS))
    found = in_threads(lambda _: [mapping.pop(key(n), None) for n in range(KEYS)])
    popped = [value for values in found for value in values if value is not None]
    assert sorted(popped) == [key(n) for n in range(KEYS)]
    assert not mapping


def test_each_item_is_popped_once_and_none_is_left(mapping: Any) -> None:
    mapping.update((key(n), key(n)) for n in range(KEYS // 4))

    def pop(_: int) -> list[Any]:
        items = []
        while True:
            try:
                items.append(mapping.popitem())
            except KeyError:
                return items

    popped = [item for items in in_threads(pop) for item in items]
    assert sorted(popped) == [(key(n), key(n)) for n in range(KEYS // 4)]


def test_one_default_is_set_and_all_get_it(mapping: Any) -> None:
    found = in_threads(
        lambda thread: [mapping.setdefault(key(n), key(thread)) for n in range(KEYS)]
    )
    for n, values in enumerate(zip(*found, strict=True)):
        assert set(values) == {mapping[key(n)]}


def test_a_transaction_takes_them_along(db: flagstone.Database, mapping: Any) -> None:
    mapping.update({b"a": b"1", b"b": b"2"})
    with db.transaction() as tx:
        assert tx[mapping].pop(b"a") == b"1" and tx[mapping].pop(b"a", None) is None
        assert tx[mapping].setdefault(b"c", b"3") == b"3"
        assert tx[mapping].popitem() == (b"b", b"2")
        assert dict(mapping) == {b"a": b"1", b"b": b"2"}
    assert dict(mapping) == {b"c": b"3"}
    mapping[b"d"] = b"4"
    with pytest.raises(flagstone.Conflict), db.transaction() as tx:
        assert tx[mapping].pop(b"d") == b"4"
        mapping[b"d"] = b"5"
    with db.snapshot() as snapshot, pytest.raises(flagstone.InvalidInput, match="not written"):
        snapshot[mapping].pop(b"d")
    with db.batch() as batch, pytest.raises(flagstone.InvalidInput, match="not read"):
        batch[mapping].popitem()


def test_a_default_of_a_transaction_can_be_changed(db: flagstone.Database) -> None:
    c = db.collection("c")
    with db.transaction() as tx:
        tx[c].setdefault("a", {"n": 0})["n"] += 1
        tx[c].setdefault("a", {"n": 0})["n"] += 1
    assert c["a"] == {"n": 2}
