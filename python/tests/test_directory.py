"""The directory of a database is the one that was opened, whatever happens to its path."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import flagstone


def fill(db: flagstone.Database, run: int, count: int) -> None:
    db.collection("c").update({i: {"run": run} for i in range(count)})


def runs(db: flagstone.Database) -> list[int]:
    return [doc["run"] for doc in db.collection("c").values()]


def test_a_relative_path_means_what_it_meant_at_the_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b/data", "b/scratch"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    with flagstone.open("data", scratch="scratch", memory="64MiB") as db:
        fill(db, 1, 10)
        monkeypatch.chdir(tmp_path / "b")
        assert db.path == tmp_path / "a" / "data"
        fill(db, 2, 100)
        db.flush()
    assert os.listdir("data") == [] and os.listdir("scratch") == []
    monkeypatch.chdir(tmp_path / "a")
    with flagstone.open("data", read_only=True) as db:
        assert runs(db) == [2] * 100


def test_a_cell_of_a_notebook_that_is_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old = flagstone.open("n")
    fill(old, 1, 1000)
    shutil.rmtree("n")
    new = flagstone.open("n")
    fill(new, 2, 300)
    new.flush()
    for call in (old.flush, old.sync, lambda: fill(old, 1, 1)):
        with pytest.raises(flagstone.Error, match="is not the directory that was opened any more"):
            call()
    with pytest.raises(flagstone.Poisoned, match="another one is at its path"):
        old.close()
    new.collection("c")["more"] = {"run": 2}
    new.close()
    with flagstone.open("n") as db:
        assert runs(db) == [2] * 301
        db.verify()


def test_a_moved_directory_keeps_what_was_written(tmp_path: Path) -> None:
    db = flagstone.open(tmp_path / "a")
    fill(db, 1, 100)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(flagstone.Error, match=f"and it is {tmp_path / 'b'} now"):
        db.flush()
    with pytest.raises(flagstone.Poisoned):
        db.close()
    assert not (tmp_path / "a").exists()
    with flagstone.open(tmp_path / "b") as db:
        assert runs(db) == [1] * 100


def test_a_symbolic_link_is_the_same_database(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "data"):
        (tmp_path / "link").symlink_to("data")
        for read_only in (False, True):
            with pytest.raises(flagstone.Busy, match="another handle of this process"):
                flagstone.open(tmp_path / "link", read_only=read_only)


def test_all_files_belong_to_their_owner(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "data") as db:
        fill(db, 1, 10)
        db.flush()
        db.backup(tmp_path / "backups")
        for path in tmp_path.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def wait_for(path: Path) -> str:
    while not path.exists() or not path.read_text().endswith("\n"):
        time.sleep(0.01)
    return path.read_text().strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("ending", ["close", "kill"])
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path, ending: str) -> None:
    """A worker of a pool kept the database of its parent from being opened again."""
    code = f"""
import flagstone, os, time
db = flagstone.open({str(tmp_path / "data")!r})
db.collection("c")["x"] = {{}}
child = os.fork()
if child:
    if {ending!r} == "close":
        db.close()
    open({str(tmp_path / "pid")!r}, "w").write(f"{{child}}\\n")
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    child = int(wait_for(tmp_path / "pid"))
    try:
        if ending == "kill":
            with pytest.raises(flagstone.Busy, match=rf"by process {parent.pid} \(python"):
                flagstone.open(tmp_path / "data")
            parent.kill()
            parent.wait()
        os.kill(child, 0)
        with flagstone.open(tmp_path / "data") as db:
            assert len(db.collection("c")) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("read_only", [False, True])
def test_busy_names_the_process_that_holds_the_lock(tmp_path: Path, read_only: bool) -> None:
    if read_only and not Path("/proc/locks").exists():
        pytest.skip("the system does not tell who reads")
    flagstone.open(tmp_path / "data").close()
    code = f"""
import flagstone, time
db = flagstone.open({str(tmp_path / "data")!r}, read_only={read_only})
open({str(tmp_path / "ready")!r}, "w").write("ready\\n")
time.sleep(600)
"""
    holder = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for(tmp_path / "ready")
        with pytest.raises(flagstone.Busy, match=rf"is locked by process {holder.pid} \(python"):
            flagstone.open(tmp_path / "data")
    finally:
        holder.kill()
        holder.wait()
    with flagstone.open(tmp_path / "data"):
        pass
