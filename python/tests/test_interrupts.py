"""Ctrl-C ends every long call, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import flagstone
import pytest
from flagstone import _flagstone

DOCUMENTS = 5_000


@pytest.fixture(autouse=True)
def no_interrupt_of_another_test() -> Iterator[None]:
    # Python leaves SIGINT alone where it was started with it ignored, as a shell starts what runs
    # in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    _flagstone._interrupt_at(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupts")
    with flagstone.open(folder / "db", memory="64MiB") as db:
        c, kv = db.collection("c"), db.keyspace("kv")
        c.update((n, {"n": n, "m": 0, "text": f"x{n * 7919 % 100003}"}) for n in range(DOCUMENTS))
        kv.update((n.to_bytes(4, "big"), b"x" * 100) for n in range(DOCUMENTS))
        db.flush()
    return folder


Call = Callable[[flagstone.Database, Path], object]
NONE = {"text": "none"}


def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def in_transaction(db: flagstone.Database, work: Callable[[flagstone.Collection], object]) -> None:
    with db.transaction() as tx:
        work(tx[c(db)])


def compact_a_change(db: flagstone.Database) -> None:
    db.keyspace("kv")[bytes(4)] = b"y" * 100
    db.compact()


CALLS: dict[str, Call] = {
    "len": lambda db, _: len(c(db)),
    "len of a keyspace": lambda db, _: len(db.keyspace("kv")),
    "len of a snapshot": lambda db, _: len(db.snapshot()[c(db)]),
    "count": lambda db, _: c(db).find({"n": {"$gte": 7}}).count(),
    "first": lambda db, _: c(db).find_one(NONE),
    "sort": lambda db, _: c(db).find(sort="-text").first(),
    "distinct": lambda db, _: c(db).find().distinct("n"),
    "find": lambda db, _: list(c(db).find(NONE)),
    "find of a snapshot": lambda db, _: list(db.snapshot()[c(db)].find(NONE)),
    "find of a transaction": lambda db, _: in_transaction(db, lambda c: list(c.find(NONE))),
    "explain": lambda db, _: c(db).find(NONE).explain(analyze=True),
    "arrow": lambda db, _: list(c(db).find().arrow({"n": "$.n"}, batch_rows=100).batches()),
    "to_pyarrow": lambda db, _: c(db).find().arrow({"n": "$.n"}, batch_rows=100).to_pyarrow(),
    "keys": lambda db, _: list(db.keyspace("kv")),
    "verify": lambda db, _: db.verify(),
    "compact": lambda db, _: compact_a_change(db),
    "backup": lambda db, folder: db.backup(folder / "backup"),
    "create_index": lambda db, _: c(db).create_index("by_text", "text"),
    "update": lambda db, _: c(db).find({"n": {"$gte": 0}}).update(set={"m": 1}),
    "delete": lambda db, _: c(db).find(NONE).delete(),
    "delete of a transaction": lambda db, _: in_transaction(db, lambda c: c.find(NONE).delete()),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_long_call(name: str, folder: Path) -> None:
    call = CALLS[name]
    with flagstone.open(folder / "db", memory="64MiB") as db:
        for nth in (1, 3):
            # At its nth question whether it goes on, the call gets a SIGINT.
            _flagstone._interrupt_at(nth)
            with pytest.raises(KeyboardInterrupt):
                call(db, folder)
                # A short call may have fewer questions: another one is asked.
                while nth > 1:
                    call(db, folder)
            assert len(c(db)) == len(db.keyspace("kv")) == DOCUMENTS
            assert c(db).indexes() == {}
            assert db.verify()
        call(db, folder)
        c(db).drop_index("by_text")


def test_an_update_that_was_interrupted_changed_whole_documents(folder: Path) -> None:
    with flagstone.open(folder / "db", memory="64MiB") as db:
        c(db).find().update(set={"m": 1})
        find = c(db).find({"m": 1})
        c(db).create_index("by_m", "m")
        for nth in (1, 4, 8):
            before = find.count()
            _flagstone._interrupt_at(nth)
            with pytest.raises(KeyboardInterrupt):
                c(db).find({"n": {"$gte": 0}, "m": {"$gte": 0}}).update(inc={"m": 1})
            assert find.count() <= before
            assert db.verify() and len(c(db)) == DOCUMENTS
        assert 0 < find.count() < DOCUMENTS
        c(db).drop_index("by_m")
        c(db).find().update(set={"m": 0})


def test_an_iterator_that_was_interrupted_leaves_nothing_out(folder: Path) -> None:
    with flagstone.open(folder / "db", memory="64MiB") as db:
        find = c(db).find({"n": {"$mod": [10, 0]}})
        whole, rows = list(find.keys()), find.keys()
        found = [next(rows) for _ in range(10)]
        _flagstone._interrupt_at(1)
        with pytest.raises(KeyboardInterrupt):
            for key in rows:
                found.append(key)
        assert 10 <= len(found) < len(whole) == DOCUMENTS // 10
        assert found == whole[: len(found)]
        for _ in range(2):
            with pytest.raises(flagstone.Interrupted):
                next(rows)


def test_a_package_that_reads_an_interrupted_stream_raises_its_own_exception(folder: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with flagstone.open(folder / "db", memory="64MiB") as db:
        source = c(db).find().arrow({"n": ("$.n", "int64")}, batch_rows=100)
        capsule = source.__arrow_c_stream__()
        reader = pa.RecordBatchReader._import_from_c_capsule(capsule)
        _flagstone._interrupt_at(2)
        with pytest.raises(pa.ArrowException, match="interrupted"):
            reader.read_all()
        _flagstone._interrupt_at(0)
        assert pa.table(source).num_rows == DOCUMENTS


@pytest.mark.parametrize("consumer", ["batches", "polars", "pyarrow", "duckdb"])
def test_ctrl_c_ends_a_stream_of_several_threads(consumer: str, tmp_path: Path) -> None:
    for package in ("polars", "pyarrow", "duckdb"):
        pytest.importorskip(package)
    code = """
        import os, signal, sys, threading, time, duckdb, flagstone
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with flagstone.open(sys.argv[1], memory="64MiB") as db:
            c, consumer = db.collection("c"), sys.argv[2]
            c.update((n, {"n": n, "text": "x" * 100}) for n in range(70_000))
            db.flush()
            columns = {"n": ("$.n", "int64"), "text": ("$.text", "text")}
            source = c.find().arrow(columns, batch_rows=500, threads=3)
            connection = flagstone.connect(db, columns=columns, batch_rows=500, threads=3)
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            begun = time.monotonic()
            try:
                while time.monotonic() < begun + 60:
                    if consumer == "batches":
                        for batch in source.batches():
                            pass
                    elif consumer == "polars":
                        source.to_polars()
                    elif consumer == "pyarrow":
                        source.to_pyarrow()
                    else:
                        connection.execute("SELECT sum(n), max(text) FROM c").fetchall()
                print("not interrupted")
            except (KeyboardInterrupt, RuntimeError, duckdb.Error) as error:
                print(type(error).__name__)
            # What follows is not disturbed.
            print(len(c.find({"n": {"$lt": 10}}).arrow(columns).to_pyarrow()))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "db"), consumer],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    ended = ["KeyboardInterrupt"]
    if consumer == "duckdb":
        # It has exceptions of its own: while it reads, and before it begins to.
        ended += ["RuntimeError", "InvalidInputException"]
    assert done.stdout.split() in [[name, "10"] for name in ended], (done.stdout, done.stderr)


def test_threads_that_share_a_snapshot_do_not_wait_for_each_other_for_ever(folder: Path) -> None:
    """A read asks for the GIL while it holds the snapshot, which another thread releases."""
    code = """
        import sys, threading, flagstone
        from pathlib import Path
        from flagstone import _flagstone
        db = flagstone.open(Path(sys.argv[1]) / "db", memory="64MiB")
        c = db.collection("c")
        # Every question asks for the GIL.
        _flagstone._interrupt_at(10**9)
        for _ in range(50):
            snapshot, begun = db.snapshot(), threading.Event()
            def read():
                begun.set()
                try:
                    snapshot[c].find({"text": "none"}).count()
                except flagstone.InvalidInput:
                    pass
            reader = threading.Thread(target=read)
            reader.start()
            begun.wait()
            snapshot.release()
            reader.join()
        db.close()
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("number", ["SIGINT", "SIGALRM"])
def test_what_a_handler_of_a_real_signal_raises_ends_a_call(number: str, folder: Path) -> None:
    code = """
        import os, signal, sys, flagstone
        from pathlib import Path
        def ring(*_):
            raise ValueError("time is over")
        signal.signal(getattr(signal, sys.argv[2]), ring)
        with flagstone.open(Path(sys.argv[1]) / "db", memory="64MiB") as db:
            c = db.collection("c")
            import threading
            number = getattr(signal, sys.argv[2])
            threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
            try:
                while True:
                    c.find({"text": "none"}).count()
            except ValueError as error:
                print(error, len(c))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder), number],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == (f"time is over {DOCUMENTS}\n", "")
