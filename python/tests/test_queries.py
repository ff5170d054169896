"""What queries count in groups and give page by page, and documents that are inserted."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Callable
from typing import Any

import flagstone
import pytest


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    c = db.collection("c")
    c.update({n: {"sub": "xyz"[n % 3], "score": n, "tags": ["a", "b"][: n % 3]} for n in range(30)})
    return c


# Groups -----------------------------------------------------------------------------------------


def test_groups_are_dicts_in_the_order_of_the_query(c: flagstone.Collection) -> None:
    by_sub = "sub: count as n, sum(score) as total, min(score) as low, max(score), avg(score) as mean"
    assert c.find({"score": {"$gte": 3}}).group(by_sub) == [
        {"sub": "x", "n": 9, "total": 135, "low": 3, "max(score)": 27, "mean": 15},
        {"sub": "y", "n": 9, "total": 144, "low": 4, "max(score)": 28, "mean": 16},
        {"sub": "z", "n": 9, "total": 153, "low": 5, "max(score)": 29, "mean": 17},
    ]
    best = c.find(sort="-total", limit=1).group("sub: sum(score) as total")
    assert best == [{"sub": "z", "total": 155}]
    assert c.find().group(": count as n") == [{"n": 30}]
    assert c.find({"sub": "none"}).group("sub: count") == []


# Pipelines ---------------------------------------------------------------------------------------


def test_pipelines_give_documents(db: flagstone.Database, c: flagstone.Collection) -> None:
    stages: list[dict[str, Any]] = [
        {"$match": {"_id": {"$lt": 10}}},
        {"$unwind": "$tags"},
        {"$group": {"_id": "$tags", "n": {"$sum": 1}, "ids": {"$push": "$_id"}}},
        {"$sort": {"_id": 1}},
    ]
    expected = [
        {"_id": "a", "n": 6, "ids": [1, 2, 4, 5, 7, 8]},
        {"_id": "b", "n": 3, "ids": [2, 5, 8]},
    ]

    def found(of: flagstone.Collection) -> list[dict[str, Any]]:
        rows = [row.to_dict() for row in of.aggregate(stages)]
        return [{**row, "ids": sorted(row["ids"])} for row in rows]

    assert found(c) == expected
    with db.snapshot() as snapshot:
        c[1] = {"tags": []}
        assert found(snapshot[c]) == expected
    with db.transaction() as tx:
        tx[c][2] = {"tags": []}
        assert [row["n"] for row in found(tx[c])] == [4, 2]
    text = '[{"$count":"n"}]'
    assert [row.to_dict() for row in c.aggregate(text)] == [{"n": 30}]
    when = datetime.datetime(2024, 5, 6, tzinfo=datetime.timezone.utc)
    shown = c.aggregate([{"$limit": 1}, {"$project": {"_id": 0, "at": {"$year": when}}}])
    assert next(shown).to_dict() == {"at": 2024}
    with pytest.raises(ValueError, match=r"pipeline\[0\].\$group: expected an _id"):
        c.aggregate([{"$group": {}}])
    with pytest.raises(ValueError, match="memory of the pipeline"):
        list(c.aggregate([{"$project": {"x": {"$range": [0, 100_000]}}}], memory=1000))


def test_groups_of_a_snapshot_and_a_transaction(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    with db.snapshot() as snapshot, db.transaction() as tx:
        c[100] = {"sub": "x"}
        tx[c][200] = {"sub": "x"}
        for handle, count in ((snapshot[c], 10), (tx[c], 11), (c, 11)):
            groups = handle.find({"sub": "x"}).group("sub: count as n")
            assert groups == [{"sub": "x", "n": count}]
        tx.rollback()


@pytest.mark.parametrize("by", ["sub: total", "sub: sum", "sub: count as"])
def test_a_group_that_is_wrong_is_refused(c: flagstone.Collection, by: str) -> None:
    with pytest.raises(flagstone.InvalidInput):
        c.find().group(by)


def test_a_group_is_text(c: flagstone.Collection) -> None:
    with pytest.raises(TypeError, match="by: expected text, found 5"):
        c.find().group(5)  # type: ignore[arg-type]


# Pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", [None, "-score", "sub"])
def test_pages_give_each_document_once(c: flagstone.Collection, sort: str | None) -> None:
    seen: list[Any] = []
    token = None
    while True:
        documents, token = c.find({"score": {"$ne": 7}}, sort=sort).page(8, after=token)
        seen += [(key, doc.to_dict()) for key, doc in documents]
        if token is None:
            break
        assert isinstance(token, str) and len(documents) == 8
    assert seen == [(key, doc.to_dict()) for key, doc in c.find({"score": {"$ne": 7}}, sort=sort)]
    assert len(seen) == 29


def test_pages_that_cannot_be_are_refused(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    _, token = c.find().page(5)
    calls: list[Callable[[], Any]] = [
        lambda: c.find().page(0),
        lambda: c.find(limit=5).page(5),
        lambda: c.find(skip=5).page(5),
        lambda: c.find().page(5, after="no token"),
        lambda: c.find({"score": 1}).page(5, after=token),
        lambda: db.collection("other").find().page(5, after=token),
    ]
    for call in calls:
        with pytest.raises(flagstone.InvalidInput):
            call()
    with pytest.raises(TypeError, match="after: expected text"):
        c.find().page(5, after=5)  # type: ignore[arg-type]


# Documents that are inserted ---------------------------------------------------------------------


def test_an_insert_never_replaces(c: flagstone.Collection) -> None:
    assert c.insert("a", {"n": 1}) == "a"
    with pytest.raises(flagstone.Duplicate, match='collection "c" has a document of the key "a"'):
        c.insert("a", {"n": 2})
    assert c["a"] == {"n": 1}
    del c["a"]
    assert c.insert("a", None) == "a" and c["a"] is None
    assert c.insert(7.5, {"n": 3}) == 7.5
    with pytest.raises(TypeError, match="insert: expected a key and a document, found 2 more"):
        c.insert("a", {}, {})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"\$\.x"):
        c.insert("b", {"x": object()})
    assert "b" not in c


def test_an_insert_without_a_key_has_a_new_one_after_all_others(db: flagstone.Database) -> None:
    c = db.collection("inserted")
    before = datetime.datetime.now(datetime.timezone.utc)
    keys = [c.insert({"n": n}) for n in range(3000)]
    ids = [uuid.UUID(key) for key in keys]
    assert all(str(id) == key and id.version == 7 for id, key in zip(ids, keys, strict=True))
    assert all(id.variant == uuid.RFC_4122 for id in ids)
    assert keys == sorted(keys) == list(c) and len(set(keys)) == 3000
    assert [doc["n"] for doc in c.values()] == list(range(3000))
    at = datetime.datetime.fromtimestamp((ids[0].int >> 80) / 1000, datetime.timezone.utc)
    assert abs(at - before) < datetime.timedelta(minutes=1)


def test_threads_insert_under_keys_of_their_own(db: flagstone.Database) -> None:
    c = db.collection("inserted")
    mine: list[list[str]] = [[] for _ in range(4)]

    def work(keys: list[str]) -> None:
        keys.extend(c.insert({}) for _ in range(200))

    threads = [threading.Thread(target=work, args=(keys,)) for keys in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(keys == sorted(keys) for keys in mine)
    assert len(c) == len({key for keys in mine for key in keys}) == 800


def test_of_threads_that_insert_one_key_one_succeeds(db: flagstone.Database) -> None:
    c = db.collection("inserted")
    won: list[int] = []

    def work(thread: int) -> None:
        for key in range(50):
            try:
                c.insert(key, {"thread": thread})
            except flagstone.Duplicate:
                continue
            won.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(50))


def test_inserts_of_a_transaction_a_batch_and_a_snapshot(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    with db.transaction() as tx:
        assert tx[c].insert("tx", {"n": 1}) == "tx"
        for taken in ("tx", 5):
            with pytest.raises(flagstone.Duplicate):
                tx[c].insert(taken, {})
    assert c["tx"] == {"n": 1}
    with db.batch() as batch:
        key = batch[c].insert({"n": 2})
    assert c[key] == {"n": 2}
    with pytest.raises(flagstone.Conflict), db.batch() as batch:
        batch[c].insert("new", {})
        batch[c].insert("tx", {})
    assert c["tx"] == {"n": 1} and "new" not in c
    with db.snapshot() as snapshot, pytest.raises(flagstone.InvalidInput):
        snapshot[c].insert({})


def test_an_insert_may_expire_and_keeps_unique_indexes(db: flagstone.Database) -> None:
    c = db.collection("inserted")
    c.create_index("one", "u", unique=True)
    c.insert("a", {"u": 1}, expires=datetime.timedelta(hours=1))
    assert c.expiry("a") is not None
    with pytest.raises(flagstone.Duplicate, match="one"):
        c.insert("b", {"u": 1})
    c.put("gone", {"u": 2}, expires=datetime.timedelta(0))
    c.insert("gone", {"u": 2})
    assert c["gone"] == {"u": 2}


# Documents that an index expires -------------------------------------------------------------------


@pytest.mark.parametrize("time", [3600, 3600.0, datetime.timedelta(hours=1)])
def test_documents_expire_after_the_date_of_an_index(c: flagstone.Collection, time: Any) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    c.clear()
    c["old"] = {"seen": now - datetime.timedelta(hours=2)}
    c["new"] = {"seen": now}
    c["text"] = {"seen": "2001-01-01T00:00:00Z"}
    c["never"] = {}
    c.create_index("by_seen", "seen", expire_after=time)
    assert sorted(c) == ["never", "new"]
    expiry = c.expiry("new")
    assert expiry is not None and abs(expiry - now - datetime.timedelta(hours=1)).total_seconds() < 1
    c["late"] = {"seen": 0}
    assert "late" not in c


@pytest.mark.parametrize(
    ("time", "error"),
    [(-1, flagstone.InvalidInput), ("1h", TypeError), (True, TypeError),
     (datetime.timedelta(-1), flagstone.InvalidInput)],
)
def test_a_wrong_time_is_refused(
    c: flagstone.Collection, time: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="expire_after: expected"):
        c.create_index("by_seen", "seen", expire_after=time)
    assert c.indexes() == {}


# Copies and files that are missing -----------------------------------------------------------------


def test_a_checkpoint_is_a_database_of_its_own(
    db: flagstone.Database, c: flagstone.Collection, tmp_path: Any
) -> None:
    db.checkpoint(tmp_path / "copy")
    c[100] = {"n": 1}
    with flagstone.open(tmp_path / "copy", memory="64MiB") as copy:
        assert len(copy.collection("c")) == 30
        copy.collection("c").clear()
    assert len(c) == 31
    with pytest.raises(flagstone.InvalidInput):
        db.checkpoint(tmp_path / "copy")


def test_what_is_missing_is_a_file_not_found(c: flagstone.Collection, tmp_path: Any) -> None:
    missing = tmp_path / "no" / "where"
    calls: list[Callable[[], Any]] = [
        lambda: c.load(missing),
        lambda: c.load([tmp_path / "none.csv"]),
        lambda: flagstone.open(missing, read_only=True),
        lambda: flagstone.open(missing, create=False),
        lambda: flagstone.open(missing, read_only=True, create=True),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert isinstance(raised.value, flagstone.NotFound) and "no" in str(raised.value)
        assert isinstance(raised.value, (flagstone.Io, OSError))
    assert not missing.exists() and not missing.parent.exists()


def test_documents_that_exist_are_reported_of_every_load(
    c: flagstone.Collection, tmp_path: Any
) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text('{"id":1}\n{"id":1000}\n{"id":2}\n')
    report = c.load(file, mode="insert")
    assert (report["documents"], report["existing"]) == (1, 2)
    assert c.load(file)["existing"] == 0
