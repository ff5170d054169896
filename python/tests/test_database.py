"""Opening, closing, and what must never happen: forks, panics, exits, kills."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import flagstone
import pytest
from flagstone import _flagstone


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_was_written_is_there_after_the_block(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "a" / "b", durability="group") as db:
        db.keyspace("kv")[b"a"] = b"1"
        assert not db.closed and not db.read_only
        assert db.path == tmp_path / "a" / "b"
    assert db.closed
    with flagstone.open(str(tmp_path / "a" / "b"), read_only=True) as db:
        assert db.keyspace("kv")[b"a"] == b"1"
        assert db.read_only and repr(db).endswith(", read-only>")
        with pytest.raises(KeyError):
            db.keyspace("other")
        with pytest.raises(flagstone.Error):
            db.keyspace("kv")[b"b"] = b""
    assert repr(db).endswith(", closed>")


def test_every_handle_of_a_closed_database_says_so(db: flagstone.Database) -> None:
    kv = db.keyspace("kv")
    kv[b"a"] = b"1"
    kv[b"b"] = b"2"
    scan = iter(kv)
    assert next(scan) == b"a"
    db.close()
    db.close()
    calls: list[Callable[[], object]] = [
        lambda: kv[b"a"],
        lambda: kv.put(b"a", b""),
        lambda: len(kv),
        lambda: next(scan),
        lambda: db.keyspace("kv"),
        lambda: db.sync(),
        lambda: kv.name,
        lambda: db.__enter__(),
    ]
    for call in calls:
        with pytest.raises(flagstone.Closed, match="was closed"):
            call()
    assert repr(kv) == "<flagstone.Keyspace of a closed database>"


def test_the_last_handle_closes_the_database(tmp_path: Path) -> None:
    kv = flagstone.open(tmp_path).keyspace("kv")
    kv[b"a"] = b"1"
    with pytest.raises(flagstone.Busy):
        flagstone.open(tmp_path)
    del kv
    with flagstone.open(tmp_path) as db:
        assert db.keyspace("kv")[b"a"] == b"1"


def test_options_of_a_keyspace_are_stored_and_compared(db: flagstone.Database) -> None:
    kv = db.keyspace(
        "kv",
        hash_partitions=8,
        compression="none",
        bottom_compression="zstd 3",
        bottom_dictionary=True,
        block_bytes="4KiB",
        filter_bits=12,
    )
    assert db.stats()["keyspaces"]["kv"]["partitions"] == 8
    assert db.stats()["keyspaces"]["kv"]["options"] == {
        "hash_partitions": 8,
        "compression": "none",
        "bottom_compression": "zstd 3",
        "bottom_dictionary": True,
        "block_bytes": 4096,
        "filter_bits": 12,
    }
    kv[b"a"] = b"1"
    # What is not given is not compared.
    assert db.keyspace("kv")[b"a"] == db.keyspace("kv", block_bytes=4096)[b"a"] == b"1"
    with pytest.raises(flagstone.InvalidInput, match="filter_bits 12.*filter_bits 10"):
        db.keyspace("kv", filter_bits=10)
    with pytest.raises(flagstone.InvalidInput):
        db.collection("c", block_bytes=100)
    assert db.keyspaces() == {"kv": "bytes"}, "what is refused creates nothing"
    db.collection("c", bottom_compression="lz4")
    options = db.stats()["keyspaces"]["c"]["options"]
    assert options["bottom_compression"] == "lz4" and "hash_partitions" not in options


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"compression": "snappy"}, ValueError, '^compression: "snappy": expected none, lz4'),
        ({"bottom_compression": "zstd 20"}, ValueError, 'bottom_compression: "zstd 20": .* 19'),
        ({"compression": 3}, TypeError, "compression: expected text, found 3"),
        ({"block_bytes": "16 apples"}, ValueError, "block_bytes"),
        ({"filter_bits": 300}, ValueError, "filter_bits: expected an int up to 20, found 300"),
        ({"hash_partitions": 70_000}, ValueError, "an int up to 256, found 70000"),
        ({"filter_bits": True}, TypeError, "filter_bits: expected an int"),
        ({"hash_partitions": 0}, ValueError, "0 hash partitions"),
        ({"hash_partitions": 1 << 70}, ValueError, "hash_partitions"),
        ({"bottom_dictionary": "yes"}, TypeError, "True or False"),
        ({"blockbytes": 4096}, TypeError, 'has no argument "blockbytes": expected .*block_bytes'),
        ({"crate": False}, TypeError, 'has no argument "crate": expected (create|compression),'),
    ],
)
def test_an_option_out_of_range_names_itself_and_what_is_expected(
    db: flagstone.Database, options: dict[str, object], error: type[Exception], expected: str
) -> None:
    calls = (db.keyspace, db.collection, db.alter)
    for call in calls[: 2 if "hash_partitions" in options else 3]:
        with pytest.raises(error, match=expected):
            call("kv", **options)  # type: ignore[arg-type]
    assert db.keyspaces() == {}


def test_options_are_compared_however_a_keyspace_is_opened(tmp_path: Path) -> None:
    with flagstone.open(tmp_path) as db:
        db.keyspace("kv", filter_bits=12)
        c = db.collection("c", filter_bits=12)
        c["a"] = {"n": 1}
        c.create_index("by_n", "n")
        db.alter("c", filter_bits=13)
        options = {name: it["options"] for name, it in db.stats()["keyspaces"].items()}
        bits = {name: it["filter_bits"] for name, it in options.items()}
        assert bits == {"kv": 12, "c": 13, "by_n": 10}, "indexes do not change"
    for read_only, create in [(False, False), (True, True), (True, False)]:
        with flagstone.open(tmp_path, read_only=read_only) as db:
            db.keyspace("kv", create=create, filter_bits=12)
            assert db.collection("c", create=create, filter_bits=13)["a"]["n"] == 1
            with pytest.raises(flagstone.InvalidInput, match="filter_bits 12.*filter_bits 9"):
                db.keyspace("kv", create=create, filter_bits=9)
            with pytest.raises(flagstone.InvalidInput, match="filter_bits 13.*filter_bits 9"):
                db.collection("c", create=create, filter_bits=9)
            with pytest.raises(flagstone.InvalidInput):
                db.collection("c", create=create, block_bytes=1)
            with pytest.raises(KeyError):
                db.collection("d", create=False, filter_bits=9)
            if read_only:
                with pytest.raises(flagstone.Error):
                    db.alter("c", filter_bits=5)
                with pytest.raises(flagstone.Error):
                    db.compact()
    with pytest.raises(flagstone.Closed):
        db.alter("c", filter_bits=5)
    with pytest.raises(flagstone.Closed):
        db.compact()


def test_a_compact_after_alter_rewrites_the_tables(db: flagstone.Database) -> None:
    c = db.collection("c", bottom_compression="none", bottom_dictionary=False)
    c.update({n: {"text": "the same words " * 20, "n": n} for n in range(5000)})
    db.compact()
    before = db.stats()["keyspaces"]["c"]["table_bytes"]
    db.alter("c", bottom_compression="zstd 3")
    assert db.stats()["keyspaces"]["c"]["options"]["bottom_compression"] == "zstd 3"
    assert db.stats()["keyspaces"]["c"]["table_bytes"] == before
    db.compact()
    assert db.stats()["keyspaces"]["c"]["table_bytes"] * 5 < before
    assert len(c) == 5000 and c[77]["n"] == 77
    with pytest.raises(flagstone.InvalidInput, match="no keyspace"):
        db.alter("d", filter_bits=3)
    with pytest.raises(TypeError, match="without an option"):
        db.alter("c")
    with pytest.raises(flagstone.InvalidInput):
        db.alter("c", hash_partitions=4)  # type: ignore[call-arg]


def test_keyspaces_are_listed_renamed_and_dropped(db: flagstone.Database) -> None:
    a = db.keyspace("a")
    db.keyspace("b")
    assert db.keyspaces() == {"a": "bytes", "b": "bytes"}
    db.rename("a", "c")
    assert a.name == "c"
    assert db.drop("b") and not db.drop("b")
    assert db.keyspaces() == {"c": "bytes"}
    with pytest.raises(KeyError, match="other"):
        db.keyspace("other", create=False)
    with pytest.raises(flagstone.InvalidInput):
        db.keyspace("")


def test_options_are_checked(tmp_path: Path) -> None:
    def refused(kind: type[Exception], text: str, **options: object) -> None:
        with pytest.raises(kind, match=text):
            flagstone.open(tmp_path / "db", **options)  # type: ignore[arg-type]
        assert not (tmp_path / "db").exists()

    refused(flagstone.Io, "there is no database here", create=False)
    refused(flagstone.InvalidInput, "memory", memory="12 apples")
    refused(flagstone.InvalidInput, "64 MiB|memory", memory=1)
    refused(flagstone.InvalidInput, "memory: expected an int from 0 on, found -1", memory=-1)
    refused(TypeError, "memory: expected a number of bytes", memory=True)
    refused(flagstone.InvalidInput, 'durability "sometimes"', durability="sometimes")
    refused(flagstone.InvalidInput, "durability: expected seconds", durability=-1)
    refused(TypeError, "durability: expected", durability=[])
    refused(TypeError, "keep_changes: expected", keep_changes=True)
    refused(TypeError, "unexpected keyword", memmory=1)
    with flagstone.open(
        tmp_path / "db",
        memory=64 << 20,
        durability=0.5,
        document_bytes_max="1MiB",
        keep_changes="16MiB",
        compaction_workers=1,
        scratch=tmp_path / "scratch",
    ) as db:
        db.flush()


def test_errors_of_the_system_keep_their_number(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file") as raised:
        flagstone.open(tmp_path / "file" / "db")
    assert isinstance(raised.value, flagstone.Io)
    assert raised.value.errno == errno.ENOTDIR


def test_damage_is_corruption(tmp_path: Path) -> None:
    flagstone.open(tmp_path).close()
    [manifest] = tmp_path.glob("*.manifest")
    damaged = bytearray(manifest.read_bytes())
    damaged[40] ^= 0xFF
    manifest.write_bytes(damaged)
    with pytest.raises(flagstone.Corruption, match="manifest"):
        flagstone.open(tmp_path)


def test_each_exception_is_a_flagstone_error() -> None:
    classes = [getattr(flagstone.errors, name) for name in flagstone.errors.__all__]
    assert all(issubclass(each, flagstone.Error) for each in classes)
    assert all(each.__doc__ for each in classes)


def test_threads_share_a_keyspace(kv: flagstone.Keyspace) -> None:
    def write(thread: int) -> None:
        for n in range(2000):
            kv[b"%d-%d" % (thread, n)] = b"%d" % n
            assert kv[b"%d-%d" % (thread, n)] == b"%d" % n

    shared = iter(kv.items())
    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kv) == 8000
    assert list(shared) == []


def test_threads_share_an_iterator(kv: flagstone.Keyspace) -> None:
    kv.update((n.to_bytes(4, "big"), b"") for n in range(20_000))
    shared = iter(kv)
    found: list[list[bytes]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda into=each: into.extend(shared)) for each in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(found, [])) == [n.to_bytes(4, "big") for n in range(20_000)]


def test_a_panic_is_an_internal_error_and_ends_the_use(
    db: flagstone.Database, capfd: pytest.CaptureFixture[str]
) -> None:
    kv = db.keyspace("kv")
    with pytest.raises(flagstone.InternalError, match="a panic for a test"):
        _flagstone._panic(db)
    assert "a panic for a test" in capfd.readouterr().err
    with pytest.raises(flagstone.InternalError, match="an earlier call .* a panic for a test"):
        kv[b"a"] = b""
    db.close()
    with flagstone.open(db.path) as again:
        assert not again.keyspace("kv")


def test_a_panic_in_an_argument_is_an_internal_error_and_harms_nothing(
    db: flagstone.Database,
) -> None:
    with pytest.raises(flagstone.InternalError, match="a panic for a test"):
        _flagstone._panic()
    db.keyspace("kv")[b"a"] = b"1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_an_error_and_harms_nothing(tmp_path: Path) -> None:
    done = run(
        """
        import gc, os, sys, flagstone
        db = flagstone.open(sys.argv[1])
        kv = db.keyspace("kv")
        kv[b"a"] = b"1"
        scan = iter(kv)
        c = db.collection("c")
        c["a"] = {"n": 1}
        batches = c.arrow().batches()
        child = os.fork()
        if child == 0:
            for call in (lambda: kv[b"a"], lambda: kv.put(b"b", b""), lambda: next(scan),
                         lambda: next(batches), lambda: kv.pop(b"a"), lambda: kv.popitem(),
                         lambda: db.keyspace("kv"), lambda: kv.name):
                try:
                    call()
                except flagstone.Forked as error:
                    assert "parent" in str(error)
                else:
                    sys.exit(1)
            db.close()
            del kv, db, scan, c, batches
            gc.collect()
            sys.exit(7)  # with the handlers of an exit
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        kv[b"c"] = b"3"
        db.close()
        with flagstone.open(sys.argv[1]) as db:
            print(dict(db.keyspace("kv")))
        """,
        tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("{b'a': b'1', b'c': b'3'}", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_opens_a_database_only_if_its_parent_had_none_open(tmp_path: Path) -> None:
    """Another database in the child was advised, and crashed it or never returned: the locks of the
    engine still had the threads of its parent in their list."""
    done = run(
        """
        import multiprocessing, os, subprocess, sys, flagstone
        os.chdir(sys.argv[1])
        def fill(name):
            with flagstone.open(name, memory="8MiB") as db:
                c = db.collection("c")
                for _ in range(4):
                    c.update({i: {"v": i, "p": "y" * 500} for i in range(2000)})
                    db.flush()
                db.compact()
        def refused(name):
            for open in (fill, lambda name: flagstone.open(name, read_only=True)):
                try:
                    open(name)
                except flagstone.Forked as error:
                    assert "spawn" in str(error)
                else:
                    sys.exit(1)
        def in_child(work, name):
            child = multiprocessing.get_context("fork").Process(target=work, args=(name,))
            child.start()
            child.join(60)
            child.kill()
            return child.exitcode
        db = flagstone.open("parent", memory="8MiB")
        c = db.collection("c")
        c.update({i: {"v": i} for i in range(20000)})
        assert in_child(refused, "child") == 0
        program = "import flagstone; flagstone.open('started').close()"
        subprocess.run([sys.executable, "-c", program], check=True)
        subprocess.run([sys.executable, "-c", program], check=True, preexec_fn=os.getpid)
        assert c[7]["v"] == 7
        db.close()
        for round in range(3):
            fill("parent")
            assert in_child(fill, f"child {round}") == 0
        print("good")
        """,
        tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("good", "")


def test_an_exit_with_open_handles_closes_them(tmp_path: Path) -> None:
    done = run(
        """
        import sys, threading, flagstone
        db = flagstone.open(sys.argv[1], durability="none")
        kv = db.keyspace("kv")
        kv[b"a"] = b"1"
        scan = iter(kv)
        def work():
            try:
                while True:
                    kv[b"b"] = b"2"
            except flagstone.Closed:
                pass
        threading.Thread(target=work, daemon=True).start()
        while b"b" not in kv:
            pass
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Without a log, only a clean close keeps what was written.
    with flagstone.open(tmp_path) as db:
        assert dict(db.keyspace("kv")) == {b"a": b"1", b"b": b"2"}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import sys, flagstone
                kv = flagstone.open(sys.argv[1]).keyspace("kv")
                for n in range(10**9):
                    kv[b"%d" % n] = b"x" * 100
                    if n % 100 == 0:
                        print(n, flush=True)
                """
            ),
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged >= 5000:
            writer.kill()
            break
    writer.stdout.read()
    writer.wait()
    with flagstone.open(tmp_path) as db:
        kv = db.keyspace("kv")
        assert all(b"%d" % n in kv for n in range(acknowledged + 1))


def test_an_interrupt_ends_a_loop_over_entries(tmp_path: Path) -> None:
    done = run(
        """
        import os, signal, sys, flagstone
        with flagstone.open(sys.argv[1]) as db:
            kv = db.keyspace("kv")
            kv.update((n.to_bytes(4, "big"), b"") for n in range(10_000))
            try:
                while True:
                    for n, key in enumerate(kv):
                        if n == 5000:
                            os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                print(len(kv))
        """,
        tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("10000", "")
