"""The change feed: what is delivered, where a reader continues, waits and their ends."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import flagstone
import pytest


@pytest.fixture
def db(tmp_path: Path) -> Iterator[flagstone.Database]:
    with flagstone.open(tmp_path / "db", memory="64MiB", keep_changes="64MiB") as database:
        yield database


def test_each_kind_of_change_is_delivered_once(db: flagstone.Database) -> None:
    kv, c = db.keyspace("kv"), db.collection("c")
    tomorrow = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
    kv.put(b"a", b"1", expires=tomorrow)
    kv.delete(b"a")
    kv.delete_range(b"b", b"d")
    c[1] = {"n": 1}
    c.update(1, inc={"n": 1})
    with db.batch() as batch:
        batch[c].update(1, inc={"n": 1})
    del c[1]
    seen = list(db.changes())
    assert [(change.name, change.kind, change.key) for change in seen] == [
        ("kv", "put", b"a"),
        ("kv", "delete", b"a"),
        ("kv", "delete_range", None),
        ("c", "put", 1),
        ("c", "put", 1),
        ("c", "patch", 1),
        ("c", "delete", 1),
    ]
    assert (seen[0].value, seen[0].expires) == (b"1", tomorrow)
    assert (seen[1].value, seen[1].expires, seen[1].document) == (None, None, None)
    assert (seen[2].start, seen[2].end) == (b"b", b"d")
    assert seen[3].document == {"n": 1} and seen[3].value is None
    assert seen[4].document == {"n": 2} and seen[4].patch is None
    assert seen[5].patch == "inc n 1" and seen[5].document is None
    numbers = [change.seqno or 0 for change in seen]
    assert numbers == sorted(set(numbers))
    assert repr(seen[0]) == "<flagstone.Change put \"kv\" b'a'>"
    assert db.drop("kv")
    assert [(change.kind, change.name) for change in db.changes(start=seen[-1].token)] == [
        ("dropped", "kv")
    ]


def test_renamings_come_between_the_changes_of_their_names(db: flagstone.Database) -> None:
    a, b = db.keyspace("a"), db.keyspace("b")
    a[b"k"] = b"1"
    b[b"k"] = b"2"
    for old, new in [("a", "t"), ("b", "a"), ("t", "b")]:
        db.rename(old, new)
    db.keyspace("a")[b"k"] = b"3"
    copy: dict[str | None, dict[object, bytes | None]] = {}
    seen = list(db.changes())
    for change in seen:
        if change.kind == "renamed":
            copy[change.new_name] = copy.pop(change.name)
        else:
            assert change.kind == "put" and change.new_name is None
            copy.setdefault(change.name, {})[change.key] = change.value
    assert copy == {"a": {b"k": b"3"}, "b": {b"k": b"1"}}
    assert [change.kind for change in seen].count("renamed") == 3


def test_a_reader_continues_at_its_token(db: flagstone.Database, tmp_path: Path) -> None:
    kv = db.keyspace("kv")
    for n in range(10):
        kv[b"%d" % n] = b""
    changes = kv.changes()
    assert [next(changes).key for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    token = changes.token
    assert [change.key for change in kv.changes(token)] == [b"%d" % n for n in range(4, 10)]
    assert len(list(changes)) == 6 and next(changes, None) is None
    kv[b"x"] = b""
    assert [change.key for change in changes] == [b"x"]
    db.close()
    with flagstone.open(tmp_path / "db") as again:
        read = [change.key for change in again.changes(token, names=["kv"])]
        assert read == [*(b"%d" % n for n in range(4, 10)), b"x"]
        assert list(again.changes("now")) == []


def test_a_commit_is_read_as_a_whole(db: flagstone.Database) -> None:
    kv, c = db.keyspace("kv"), db.collection("c")
    kv[b"before"] = b""
    with db.batch() as batch:
        batch[kv][b"a"] = b"1"
        batch[c]["x"] = {}
        batch[kv][b"b"] = b"2"
    changes = db.changes()
    before = next(changes)
    assert before.token == changes.token
    for key in (b"a", "x"):
        assert (change := next(changes)).key == key and change.token is None
        assert changes.token == before.token
    assert (last := next(changes)).key == b"b" and last.token == changes.token
    assert [change.key for change in kv.changes(before.token)] == [b"a", b"b"]


def test_old_documents_come_if_they_are_kept(db: flagstone.Database) -> None:
    c = db.collection("c")
    c["a"] = {"n": 1}
    c.keep_old_documents()
    changes = c.changes("now")
    c.update("a", inc={"n": 1})
    c["a"] = {"n": 5}
    del c["a"]
    assert [(change.kind, change.old, change.document) for change in changes] == [
        ("put", {"n": 1}, {"n": 2}),
        ("put", {"n": 2}, {"n": 5}),
        ("delete", {"n": 5}, None),
    ]
    c.keep_old_documents(False)
    c["a"] = {"n": 1}
    assert [change.old for change in changes] == [None]


def test_a_copy_that_follows_is_equal(db: flagstone.Database) -> None:
    c = db.collection("c")
    c.keep_old_documents()
    copy: dict[object, object] = {}
    changes = c.changes(timeout=60)

    def write() -> None:
        for n in range(500):
            c[n % 50] = {"n": n}
            if n % 7 == 0:
                c.update(n % 50, inc={"n": 1000})
            if n % 5 == 0:
                c.pop((n * 3) % 50, None)
        c["end"] = {}

    writer = threading.Thread(target=write)
    writer.start()
    for change in changes:
        if change.key == "end":
            break
        if change.kind == "put":
            copy[change.key] = change.document
        else:
            assert change.kind == "delete"
            copy.pop(change.key, None)
    writer.join()
    del c["end"]
    assert copy == c


def test_a_wait_ends_with_its_time_a_write_or_a_close(db: flagstone.Database) -> None:
    kv = db.keyspace("kv")
    changes = kv.changes()
    assert changes.next(timeout=timedelta(milliseconds=10)) is None
    timer = threading.Timer(0.1, lambda: kv.put(b"a", b""))
    timer.start()
    change = changes.next()
    assert change is not None and change.key == b"a"
    timer.join()
    timer = threading.Timer(0.1, db.close)
    timer.start()
    with pytest.raises(flagstone.Closed):
        changes.next()
    timer.join()
    with pytest.raises(flagstone.Closed):
        changes.token
    assert repr(changes) == "<flagstone.Changes of a closed database>"


def test_changes_that_are_not_kept_any_more_are_too_old(tmp_path: Path) -> None:
    with flagstone.open(tmp_path, memory="64MiB", keep_changes="1MiB") as db:
        kv = db.keyspace("kv")
        kv[b"first"] = b""
        reader = kv.changes()
        token = next(reader).token
        for n in range(400):
            kv[b"%d" % n] = n.to_bytes(2, "big") * 50_000
        db.flush()
        for n in range(100):
            kv[b"%d" % n] = n.to_bytes(2, "big") * 50_000
        db.flush()
        with pytest.raises(flagstone.TooOld):
            list(kv.changes(token))
        with pytest.raises(flagstone.TooOld):
            list(reader)
        # What is kept can still be read.
        assert kv.changes() is not None


def test_wrong_arguments_are_refused(db: flagstone.Database, tmp_path: Path) -> None:
    kv, c = db.keyspace("kv"), db.collection("c")
    with pytest.raises(flagstone.InvalidInput, match="change token"):
        kv.changes("yesterday")
    with pytest.raises(TypeError, match="timeout: expected"):
        c.changes(timeout="long")  # type: ignore[arg-type]
    with pytest.raises(flagstone.InvalidInput, match="timeout: expected"):
        c.changes().next(timeout=-1)
    with db.transaction() as tx, pytest.raises(flagstone.InvalidInput, match="changes is done by"):
        tx[c].changes()
    with flagstone.open(tmp_path / "other", keep_changes="1MiB") as other:
        with pytest.raises(flagstone.InvalidInput):
            other.changes(db.changes().token)
    with flagstone.open(tmp_path / "none") as none, pytest.raises(flagstone.InvalidInput):
        none.changes()


def test_a_database_for_reading_delivers_what_it_finds(tmp_path: Path) -> None:
    with flagstone.open(tmp_path, keep_changes="1MiB") as db:
        db.keyspace("kv")[b"a"] = b"1"
    with flagstone.open(tmp_path, read_only=True) as db:
        assert [change.value for change in db.changes(timeout=None)] == [b"1"]


def test_an_interrupt_ends_a_wait(tmp_path: Path) -> None:
    code = """
        import os, signal, sys, threading, flagstone
        with flagstone.open(sys.argv[1], keep_changes="1MiB") as db:
            kv = db.keyspace("kv")
            changes = kv.changes(timeout=None)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                for change in changes:
                    print("a change", change)
            except KeyboardInterrupt:
                kv[b"a"] = b""
                print([change.key for change in kv.changes(changes.token)])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("[b'a']\n", "")
