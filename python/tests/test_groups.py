"""Batches, transactions and snapshots: what happens together, and what is seen."""

from __future__ import annotations

import threading
from pathlib import Path

import flagstone
import pytest


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def test_a_batch_is_written_as_a_whole(
    db: flagstone.Database, kv: flagstone.Keyspace, c: flagstone.Collection
) -> None:
    kv[b"old"] = b""
    c["old"] = {"n": 1}
    with db.batch() as batch:
        batch[kv][b"k"] = b"v"
        batch[kv].update({b"k2": b"v2"})
        del batch[kv][b"old"]
        batch[c]["a"] = {"n": 1}
        batch[c].put_json("j", "[1.10]")
        assert batch[c].update("old", inc={"n": 1}) is None  # a batch does not read
        batch[c].update({"b": 2})
        assert len(batch) == 7
        assert b"k" not in kv and "a" not in c
    assert dict(kv) == {b"k": b"v", b"k2": b"v2"}
    assert c == {"a": {"n": 1}, "j": c["j"], "old": {"n": 2}, "b": 2}
    with pytest.raises(flagstone.InvalidInput, match="the batch has ended"):
        batch[kv][b"late"] = b""


def test_an_exception_gives_a_batch_up(db: flagstone.Database, kv: flagstone.Keyspace) -> None:
    with pytest.raises(ZeroDivisionError), db.batch() as batch:
        batch[kv][b"k"] = b"v"
        1 / 0
    assert not kv
    with db.batch() as batch:
        batch[kv][b"k"] = b"v"
        batch.commit()
    assert kv[b"k"] == b"v"


def test_a_batch_cannot_be_read(
    db: flagstone.Database, kv: flagstone.Keyspace, c: flagstone.Collection
) -> None:
    batch = db.batch()
    for read in (
        lambda: batch[kv][b"a"],
        lambda: list(batch[kv]),
        lambda: batch[c].get("a"),
        lambda: batch[c].find().count(),
        lambda: list(batch[c]),
    ):
        with pytest.raises(flagstone.InvalidInput, match="not read"):
            read()


def test_a_transaction_sees_its_own_writes(
    db: flagstone.Database, kv: flagstone.Keyspace, c: flagstone.Collection
) -> None:
    kv.update({b"%03d" % n: b"old" for n in range(600)})
    c.update({n: {"n": n} for n in range(600)})
    with db.transaction() as tx:
        for n in range(0, 600, 2):
            del tx[kv][b"%03d" % n]
            del tx[c][n]
        tx[kv][b"new"] = b"v"
        tx[c]["new"] = {"n": -1}
        keys = [b"%03d" % n for n in range(1, 600, 2)]
        assert list(tx[kv]) == [*keys, b"new"]
        assert list(reversed(tx[kv])) == [b"new", *keys[::-1]]
        assert list(tx[c]) == [*range(1, 600, 2), "new"]
        assert list(tx[c].keys(100, 105, reverse=True)) == [103, 101]
        assert len(tx[kv]) == len(tx[c]) == 301
        assert tx[c].find({"n": {"$lt": 5}}, sort="n").count() == 3
        assert [key for key, _ in tx[c].find({"n": {"$lt": 5}}, sort="n")] == ["new", 1, 3]
        assert tx[c].find({"n": {"$gte": 590}}).update(set={"late": True}) == 5
        assert tx[c].find({"n": {"$gte": 595}}).delete() == 3
        assert len(kv) == len(c) == 600
    assert len(kv) == 301 and len(c) == 298
    assert c.find({"late": True}).count() == 2
    with pytest.raises(flagstone.InvalidInput, match="the transaction has ended"):
        tx[kv][b"a"]


def test_parts_of_documents_are_assigned_in_a_transaction(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = {"score": 1, "in": {"n.m": [1], "gone": True}}
    with db.transaction() as tx:
        document = tx[c]["a"]
        inner = document["in"]
        document["score"] += 1
        inner["n.m"] = {"x": 2}
        inner["n.m"]["y"] = 3
        del inner["gone"]
        assert document == {"score": 2, "in": {"n.m": {"x": 2, "y": 3}}}
        assert tx[c]["a"] == document and c["a"]["score"] == 1
        with pytest.raises(KeyError):
            del inner["gone"]
        tx[c]["a"]["score"] += 1
    assert c["a"] == {"score": 3, "in": {"n.m": {"x": 2, "y": 3}}}
    with pytest.raises(flagstone.InvalidInput, match="has ended"):
        document["score"] = 4


def test_an_exception_gives_a_transaction_up(
    db: flagstone.Database, kv: flagstone.Keyspace
) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx[kv][b"a"] = b"1"
        1 / 0
    assert b"a" not in kv
    with db.transaction() as tx:
        tx[kv][b"a"] = b"1"
        tx.rollback()
    assert b"a" not in kv


def test_a_commit_that_comes_between_is_a_conflict(
    db: flagstone.Database, kv: flagstone.Keyspace
) -> None:
    kv[b"a"] = b"0"
    with pytest.raises(flagstone.Conflict), db.transaction() as tx:
        tx[kv][b"a"] = b"1"
        kv[b"a"] = b"2"
    assert kv[b"a"] == b"2"
    with pytest.raises(flagstone.Conflict), db.transaction(serializable=True) as tx:
        assert tx[kv][b"a"] == b"2"
        tx[kv][b"b"] = b"1"
        kv[b"a"] = b"3"
    with db.transaction() as tx:
        assert tx[kv][b"a"] == b"3"
        tx[kv][b"b"] = b"1"
        kv[b"a"] = b"4"


def test_transact_tries_again_until_nothing_is_lost(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["n"] = {"n": 0}

    def count(tx: flagstone.Transaction) -> int:
        tx[c]["n"]["n"] += 1
        result: int = tx[c]["n"]["n"]
        return result

    def work() -> None:
        for _ in range(50):
            db.transact(count, retries=10_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c["n"] == {"n": 200}
    assert db.transact(lambda tx: "returned") == "returned"


def test_transact_passes_other_exceptions_on(
    db: flagstone.Database, kv: flagstone.Keyspace
) -> None:
    calls = []

    def fail(tx: flagstone.Transaction) -> None:
        calls.append(tx)
        tx[kv][b"a"] = b""
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        db.transact(fail)
    assert len(calls) == 1 and b"a" not in kv

    def collide(tx: flagstone.Transaction) -> None:
        calls.append(tx)
        tx[kv][b"a"] = b"1"
        kv[b"a"] = b"2"

    calls.clear()
    with pytest.raises(flagstone.Conflict):
        db.transact(collide, retries=3)
    assert len(calls) == 4


def test_a_snapshot_stays(
    db: flagstone.Database, kv: flagstone.Keyspace, c: flagstone.Collection
) -> None:
    kv[b"a"] = b"1"
    c["a"] = {"n": 1}
    with db.snapshot() as snapshot:
        kv[b"a"] = b"2"
        kv[b"b"] = b""
        c["a"] = {"n": 2}
        c["b"] = {"n": 3}
        assert dict(snapshot[kv]) == {b"a": b"1"} and snapshot[c] == {"a": {"n": 1}}
        assert snapshot[c].find({"n": {"$gte": 1}}).count() == 1
        assert snapshot[c].get("a", path="n") == 1 and len(snapshot[c]) == 1
        assert list(snapshot[c].find()) == [("a", {"n": 1})]
        assert snapshot[kv].get_many([b"a", b"b"]) == [b"1", None]
        for write in (
            lambda: snapshot[kv].__setitem__(b"a", b""),
            lambda: snapshot[c].__setitem__("a", 1),
            lambda: snapshot[c].update("a", set={"n": 1}),
            lambda: snapshot[c].find().delete(),
        ):
            with pytest.raises(flagstone.InvalidInput, match="snapshot is read"):
                write()
        with pytest.raises(flagstone.InvalidInput, match="not by a handle of a snapshot"):
            snapshot[kv].clear()
        assert repr(snapshot[kv]) == '<flagstone.Keyspace "kv" of a snapshot>'
    with pytest.raises(flagstone.InvalidInput, match="released"):
        snapshot[kv]


def test_handles_of_other_databases_are_refused(db: flagstone.Database, tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "other") as other:
        kv = other.keyspace("kv")
        with pytest.raises(flagstone.InvalidInput, match="another database"):
            db.batch()[kv]
        with pytest.raises(TypeError, match="expected a Keyspace or a Collection, found str"):
            db.snapshot()["kv"]  # type: ignore[call-overload]


def test_a_closed_database_ends_groups(db: flagstone.Database, kv: flagstone.Keyspace) -> None:
    tx, batch, snapshot = db.transaction(), db.batch(), db.snapshot()
    of = [tx[kv], snapshot[kv]]
    with pytest.raises(flagstone.Closed), db.transaction() as inner:
        inner[kv][b"a"] = b""
        db.close()
    for handle in of:
        with pytest.raises(flagstone.Closed):
            handle[b"a"]
    for group in (tx, batch, snapshot):
        with pytest.raises(flagstone.Closed):
            group[kv]
