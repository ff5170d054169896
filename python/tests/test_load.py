"""Loading files: what is loaded, progress, interrupts, kills."""

from __future__ import annotations

import gzip
import io
import json
import re
import signal
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import flagstone
import pytest
from flagstone.progress import Bar


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def lines(path: Path, documents: int) -> Path:
    with path.open("w") as file:
        for n in range(documents):
            file.write(json.dumps({"id": n, "text": "x" * 100, "in": {"key": f"k{n}"}}) + "\n")
    return path


def test_files_of_all_kinds_are_loaded(c: flagstone.Collection, tmp_path: Path) -> None:
    plain = lines(tmp_path / "a.jsonl", 1000)
    done = c.load(plain)
    assert done["documents"] == 1000 and done["bytes"] > 100_000 and done["seconds"] > 0
    assert len(c) == 1000 and c[7]["in"]["key"] == "k7"

    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    table = tmp_path / "t.csv"
    table.write_text("id,price\na,1.10\nb,2\n")
    c.clear()
    assert c.load([packed, table], key="$.id")["documents"] == 1002
    assert c.get_json("a") == '{"id":"a","price":1.10}'
    assert c.load(str(plain), key="in.key")["documents"] == 1000 and "k999" in c
    assert c.load(plain, mode="insert")["existing"] == 1000


def test_tables_and_keys_take_options(c: flagstone.Collection, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id;zip;n;q\n1;01;007;\"12\"\n")
    c.load(table, delimiter=";", types={"zip": "text", "n": "int"})
    assert c[1].to_dict() == {"id": 1, "zip": "01", "n": 7, "q": "12"}
    with pytest.raises(flagstone.InvalidInput, match='column "m"'):
        c.load(table, delimiter=";", types={"m": "int"})
    with pytest.raises(flagstone.InvalidInput, match='types of column "n"'):
        c.load(table, types={"n": "real"})  # type: ignore[dict-item]
    with pytest.raises(flagstone.InvalidInput, match="one ASCII character"):
        c.load(table, delimiter="ab")
    with pytest.raises(TypeError, match="types"):
        c.load(table, types=["n"])  # type: ignore[arg-type]
    plain = lines(tmp_path / "a.jsonl", 3)
    with pytest.raises(flagstone.InvalidInput, match="types is for tables"):
        c.load(plain, types={"n": "int"})
    c.clear()
    c.load(plain, key="id,in.key")
    assert [tuple(key) for key in c] == [(0, "k0"), (1, "k1"), (2, "k2")]
    c.clear()
    for log in (9, 32):
        with pytest.raises(flagstone.InvalidInput, match=f"window_log: .*, found {log}"):
            c.load(plain, window_log=log)
    for _ in range(2):
        c.load(plain, key="auto", window_log=31)
    # Loads that begin in one millisecond had keys that were mixed, and those of insert another form.
    assert [document["id"] for document in c.values()] == [0, 1, 2, 0, 1, 2]
    assert list(c) == sorted(c) and all(len(key) == 36 for key in c)
    last = c.insert({"id": "inserted"})
    assert isinstance(last, str) and list(c)[-1] == last
    with plain.open() as opened, pytest.raises(TypeError, match="files: expected .*, found"):
        c.load(opened)


def test_a_stopped_load_continues_only_what_is_still_there(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"id":1}\n{"id":2}\n'

    def stop() -> None:
        path.write_text(good + "BAD\n")
        with pytest.raises(flagstone.InvalidInput):
            c.load(path, resume=True)
        path.write_text(good + '{"id":3}\n')

    stop()
    assert c.load(path, resume=True)["documents"] == 1
    c.clear()
    stop()
    c.clear()
    assert c.load(path, resume=True)["documents"] == 3
    stop()
    c.find({"id": 1}).delete()
    assert c.load(path, resume=True)["documents"] == 3
    stop()
    path.write_text(good.replace("1", "7") + '{"id":3}\n')
    with pytest.raises(flagstone.InvalidInput, match="has changed before byte 17"):
        c.load(path, resume=True)
    assert list(c) == [1, 2, 3]


def test_a_load_says_whether_the_same_text_was_loaded_before(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"n":1}\n{"n":2')
    bad = tmp_path / "bad.txt"

    def load() -> tuple[object, ...]:
        done = c.load(path, key="auto", resume=True, bad_lines=bad)
        return done["was_complete"], done["documents"], done["bad"]

    assert load() == (False, 1, 1)
    assert load() == (True, 0, 0)
    with path.open("a") as file:
        file.write('}\n{"n":3}\n')
    assert load() == (False, 2, 0)
    assert load() == (True, 0, 0)
    assert [doc["n"] for doc in c.values()] == [1, 2, 3]
    assert c.load(path, key="n")["was_complete"] is False


def test_a_comma_in_brackets_is_part_of_a_path(c: flagstone.Collection, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a,b":2,"c":1}\n{"a,b":10,"c":0}\n')
    c.clear()
    c.load(path, key="$['a,b']")
    assert list(c) == [2, 10]
    for sort in ("-$['a,b']", ["-a,b"], ["c", "a,b"]):
        for fields in ("$['a,b']", ["a,b"], ["$['a,b']"]):
            found = [doc.to_dict() for doc in c.find(sort=sort, fields=fields).values()]
            assert found == [{"a,b": 10}, {"a,b": 2}]
    # A bracket that is not closed was so until the end of the whole list.
    c.put(3, {"size (cm": 1, "year": 5, "kg [a": 1, "b]": 7})
    for sort in ("size (cm,-year", ["size (cm", "-year"], ["kg [a", "-b]"]):
        for fields in ("size (cm,year", ["size (cm", "year"]):
            found = list(c.find('{"year":{"$gt":0}}', sort=sort, fields=fields).values())
            assert [doc.to_dict() for doc in found] == [{"size (cm": 1, "year": 5}]
    first = next(iter(c.find(sort=["-kg [a", "b]"])))
    assert first[0] == 3
    c.delete(3)
    c.create_index("by_ab", "$['a,b']")
    with pytest.raises(flagstone.InvalidInput, match="\"a,c\": expected one field, found a comma"):
        c.create_index("by_ab_c", "a,c")


def test_a_bad_document_is_an_error_that_names_its_place(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id":1}\n{"id":2,}\n')
    with pytest.raises(flagstone.InvalidInput, match=r"bad\.jsonl.*2"):
        c.load(path)
    assert list(c) == [1]
    with pytest.raises(flagstone.Io, match="none"):
        c.load(tmp_path / "none.jsonl")
    with pytest.raises(flagstone.InvalidInput, match='mode "replace"'):
        c.load(path, mode="replace")  # type: ignore[arg-type]
    with pytest.raises(flagstone.InvalidInput, match='format "xml"'):
        c.load(path, format="xml")  # type: ignore[arg-type]


def test_bad_documents_are_copied_and_the_load_goes_on(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    path, bad = tmp_path / "a.jsonl", tmp_path / "bad.jsonl"
    path.write_text('{"id":1}\n{"id":2,}\n{"name":"no key"}\n{"id":3}\n')
    done = c.load(path, bad_lines=bad)
    assert (done["documents"], done["bad"], list(c)) == (2, 2, [1, 3])
    copied = bad.read_text().splitlines()
    assert copied[1::2] == ['{"id":2,}', '{"name":"no key"}']
    assert copied[0].startswith(f"# {path}:2:") and copied[2].startswith(f"# {path}:3:")
    # Each load begins the file anew; with "insert" it gets what exists, too.
    path.write_text('{"id":3}\n{"id":4}\n')
    done = c.load(path, mode="insert", bad_lines=str(bad))
    assert (done["documents"], done["existing"], done["bad"]) == (1, 1, 0)
    assert bad.read_text().splitlines()[1::2] == ['{"id":3}']
    with pytest.raises(flagstone.InvalidInput, match="bad lines would overwrite it"):
        c.load(path, bad_lines=path)
    with pytest.raises(flagstone.Io, match="none"):
        c.load(path, bad_lines=tmp_path / "none" / "bad.jsonl")


def test_progress_is_reported_and_may_stop_a_load(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    path = lines(tmp_path / "a.jsonl", 1000)
    calls: list[tuple[int, int, int | None]] = []
    c.load(path, progress=lambda *call: calls.append(call))
    size = path.stat().st_size
    assert calls[-1] == (1000, size, size)

    def stop(documents: int, done: int, total: int | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        c.load(path, progress=stop)


def test_a_file_of_stderr_gets_the_last_line_alone(
    c: flagstone.Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    c.load(lines(tmp_path / "a.jsonl", 1000), progress=True)
    shown = capsys.readouterr().err
    assert re.fullmatch(
        r"100%\|#{30}\| 1,000 documents \[\d\d:\d\d, [\d,]+/s\]\n", shown
    )


class Clock(Bar):
    """A bar with a clock of its own."""

    now = 100.0

    @staticmethod
    def _now() -> float:
        return Clock.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_by(bar: Bar, to: io.StringIO) -> list[str]:
    """Returns the lines of a load of 1,000 documents, one each ten seconds, and the last one."""
    Clock.now = 100.0
    for documents in (0, 250, 500):
        Clock.now += 10
        bar(documents, documents * 10, 10_000)
    Clock.now += 0.01
    bar(501, 5_010, 10_000)  # too soon after the line before
    Clock.now += 20
    bar(1_000, 10_000, 10_000)
    bar.close()
    return to.getvalue().split("\r")


def test_a_terminal_shows_rate_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    Clock.now, to = 100.0, Terminal()
    lines = [line.rstrip() for line in shown_by(Clock(to), to)]
    assert lines == [
        "",
        f"  0%|{'.' * 30}| 0 documents [00:10<?, 0/s]",
        f" 25%|{'#' * 7}{'.' * 23}| 250 documents [00:20<00:30, 25/s]",
        f" 50%|{'#' * 15}{'.' * 15}| 500 documents [00:30<00:20, 25/s]",
        f"100%|{'#' * 30}| 1,000 documents [00:50<00:00, 25/s]",
        f"100%|{'#' * 30}| 1,000 documents [00:50, 20/s]",
    ]
    monkeypatch.setenv("COLUMNS", "20")
    Clock.now, to = 100.0, Terminal()
    assert max(len(line.rstrip("\n")) for line in shown_by(Clock(to), to)) == 19


def test_without_a_terminal_there_is_the_last_line_and_without_a_total_no_bar() -> None:
    Clock.now, to = 100.0, io.StringIO()
    assert shown_by(Clock(to), to) == [f"100%|{'#' * 30}| 1,000 documents [00:50, 20/s]\n"]
    Clock.now, to = 100.0, io.StringIO()
    bar = Clock(to)
    Clock.now += 7200
    bar(72_000)
    bar.close()
    assert to.getvalue() == "72,000 documents [2:00:00, 10/s]\n"


def test_a_notebook_updates_one_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, what: object) -> None:
            shown.append(repr(what))

    def display(what: object, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(repr(what))
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    displays = types.ModuleType("IPython.display")
    displays.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    Clock.now = 100.0
    shown_by(Clock(), io.StringIO())
    assert shown[0] == "0 documents" and len(shown) == 6
    assert shown[-1] == f"100%|{'#' * 30}| 1,000 documents [00:50, 20/s]"
    assert capsys.readouterr().err == ""
    # A shell in a terminal has no kernel.
    del shell.kernel
    shown.clear()
    shown_by(Clock(), io.StringIO())
    assert shown == [] and capsys.readouterr().err.count("\n") == 1


def test_an_interrupt_ends_a_load_and_keeps_what_was_read(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 200_000)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import os, signal, sys, flagstone
                from pathlib import Path
                # A shell starts what runs in the background with the signal ignored.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                with flagstone.open(Path(sys.argv[1]) / "db") as db:
                    c = db.collection("c")
                    def interrupt(documents, done, total):
                        if documents:
                            os.kill(os.getpid(), signal.SIGINT)
                    try:
                        c.load(Path(sys.argv[1]) / "a.jsonl", progress=interrupt)
                    except KeyboardInterrupt:
                        print(0 < len(c))
                """
            ),
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_a_killed_load_continues(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 100_000)
    code = """
        import sys, flagstone
        from pathlib import Path
        db = flagstone.open(Path(sys.argv[1]) / "db")
        def tell(documents, done, total):
            print(documents, flush=True)
        done = db.collection("c").load(
            Path(sys.argv[1]) / "a.jsonl", resume=True, progress=tell
        )
    """
    load = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    process = subprocess.Popen(load, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) > 0:
            process.kill()
            break
    process.stdout.read()
    process.wait()
    subprocess.run(load, check=True, stdout=subprocess.DEVNULL, timeout=120)
    with flagstone.open(tmp_path / "db") as db:
        c = db.collection("c")
        assert len(c) == 100_000 and c[99_999]["id"] == 99_999
        assert db.verify()
