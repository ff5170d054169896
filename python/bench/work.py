"""The workloads of the figures. Each runs in a process of its own: `python work.py NAME ARGUMENTS`,
with the arguments as JSON, prints a JSON object of what it measured. Paths are below a directory
that is removed by the caller.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VALUE_BYTES = 1024
# Every store has as much memory as flagstone's budget, where it can be told.
MEMORY = 512 << 20
Arguments = dict[str, Any]
Result = dict[str, float]


def keys(count: int) -> list[bytes]:
    """Returns keys of 16 bytes in random order."""
    draw = random.Random(7)
    return [b"%016x" % draw.getrandbits(64) for _ in range(count)]


def values() -> list[bytes]:
    """Returns values, half of each random, as compressible as documents are."""
    draw = random.Random(8)
    return [draw.randbytes(VALUE_BYTES // 2) + b"v" * (VALUE_BYTES // 2) for _ in range(1024)]


class Store:
    """A key-value store: puts that survive the process, each acknowledged by itself, and gets. Each
    store has loops of its own, as its users write them.
    """

    def __init__(self, folder: Path) -> None:
        raise NotImplementedError

    def write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        raise NotImplementedError

    def read(self, keys: list[bytes]) -> Any:
        """Gets all values, and returns the last."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Flagstone(Store):
    def __init__(self, folder: Path) -> None:
        import flagstone

        self._db = flagstone.open(folder, memory=MEMORY)
        self._kv = self._db.keyspace("kv")

    def write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        kv = self._kv
        for key, value in pairs:
            kv[key] = value

    def read(self, keys: list[bytes]) -> Any:
        kv, value = self._kv, None
        for key in keys:
            value = kv[key]
        return value

    def close(self) -> None:
        self._db.close()


class Sqlite(Store):
    def __init__(self, folder: Path) -> None:
        import sqlite3

        folder.mkdir()
        self._connection = sqlite3.connect(folder / "db", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=OFF", f"cache_size=-{MEMORY >> 10}"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._connection.execute("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")

    def write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        run = self._connection.execute
        for pair in pairs:
            run("INSERT OR REPLACE INTO kv VALUES (?, ?)", pair)

    def read(self, keys: list[bytes]) -> Any:
        run, value = self._connection.execute, None
        for key in keys:
            value = run("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()[0]
        return value

    def close(self) -> None:
        self._connection.close()


class Lmdb(Store):
    def __init__(self, folder: Path) -> None:
        import lmdb

        # Without sync a commit survives the process, as those of the others here.
        self._env = lmdb.open(str(folder), map_size=64 << 30, sync=False)

    def write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        begin = self._env.begin
        for key, value in pairs:
            with begin(write=True) as transaction:
                transaction.put(key, value)

    def read(self, keys: list[bytes]) -> Any:
        begin, value = self._env.begin, None
        for key in keys:
            with begin() as transaction:
                value = transaction.get(key)
        return value

    def close(self) -> None:
        self._env.close()


class Rocksdict(Store):
    def __init__(self, folder: Path) -> None:
        from rocksdict import BlockBasedOptions, Cache, Options, Rdict

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        table = BlockBasedOptions()
        table.set_block_cache(Cache(MEMORY // 2))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(MEMORY // 8)
        options.set_max_write_buffer_number(4)
        self._db = Rdict(str(folder), options)

    def write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        db = self._db
        for key, value in pairs:
            db[key] = value

    def read(self, keys: list[bytes]) -> Any:
        db, value = self._db, None
        for key in keys:
            value = db[key]
        return value

    def close(self) -> None:
        self._db.close()


STORES: dict[str, type[Store]] = {
    "flagstone": Flagstone,
    "sqlite3": Sqlite,
    "lmdb": Lmdb,
    "rocksdict": Rocksdict,
}


def seconds(read: Callable[[], object]) -> float:
    """Returns the median of what `read` takes, whose data is in memory: one call is too short."""
    took = []
    for _ in range(5):
        started = time.perf_counter()
        read()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def key_value(arguments: Arguments) -> Result:
    """Puts of 1 KB in random order, then gets of random keys, by one thread."""
    wanted, some = keys(arguments["records"]), values()
    store = STORES[arguments["engine"]](Path(arguments["folder"]))
    pairs = [(key, some[n & 1023]) for n, key in enumerate(wanted)]
    started = time.perf_counter()
    store.write(pairs)
    put = time.perf_counter() - started
    del pairs
    random.Random(9).shuffle(wanted)
    assert len(store.read(wanted)) == VALUE_BYTES
    get = seconds(lambda: store.read(wanted))
    store.close()
    return {"put": len(wanted) / put, "get": len(wanted) / get}


def opened(arguments: Arguments) -> tuple[Any, Any]:
    import flagstone

    db = flagstone.open(arguments["folder"], memory=MEMORY)
    return db, db.collection("comments")


def load(arguments: Arguments) -> Result:
    """A load of the comments, and an index if asked. The time has the open and the close, as that
    of the tool has.
    """
    started = time.perf_counter()
    db, comments = opened(arguments)
    report = comments.load(arguments["file"], key="id")
    db.close()
    took = time.perf_counter() - started
    if arguments.get("index"):
        db, comments = opened(arguments)
        comments.create_index("by_subreddit", "$.subreddit", "$.score")
        db.close()
    return {"documents/s": report["documents"] / took}


def get_json(arguments: Arguments) -> Result:
    """Gets of documents as JSON text, of keys in random order."""
    db, comments = opened(arguments)
    wanted = [key for key, _ in zip(comments.keys(), range(arguments["records"]), strict=False)]
    random.Random(9).shuffle(wanted)
    get = comments.get_json

    def read() -> None:
        for key in wanted:
            get(key)

    read()
    took = seconds(read)
    db.close()
    return {"documents/s": len(wanted) / took}


def two_columns(arguments: Arguments) -> Result:
    """Two columns of all comments as a frame of polars."""
    import polars

    db, comments = opened(arguments)
    started = time.perf_counter()
    source = comments.find().arrow({"author": "$.author", "score": "$.score"})
    frame = polars.DataFrame(source)
    took = time.perf_counter() - started
    result = frame.estimated_size() / 2**20
    db.close()
    return {"documents/s": len(frame) / took, "result MiB": result}


COLUMNS = {"subreddit": ("$.subreddit", "text"), "score": ("$.score", "int64")}
SQL = (
    "SELECT subreddit, count(*) AS n, avg(score) AS mean FROM {} "
    "GROUP BY subreddit ORDER BY n DESC, subreddit LIMIT 10"
)


def by_polars(arguments: Arguments) -> Result:
    """Count and mean score by subreddit, the first ten, by polars."""
    import flagstone
    import polars as pl

    db, comments = opened(arguments)
    started = time.perf_counter()
    frame = (
        flagstone.scan(comments, COLUMNS)
        .group_by("subreddit")
        .agg(pl.len().alias("n"), pl.col("score").mean().alias("mean"))
        .sort(["n", "subreddit"], descending=[True, False])
        .head(10)
        .collect(engine="streaming")
    )
    took = time.perf_counter() - started
    db.close()
    return {"seconds": took, "check": float(frame["n"].sum())}


def by_duckdb(arguments: Arguments) -> Result:
    """The same by DuckDB over the collection."""
    # Imports and DuckDB's own connection are not measured, as they are not for `read_json`.
    import duckdb
    import flagstone
    import pyarrow.dataset  # noqa: F401

    db, _ = opened(arguments)
    connection = duckdb.connect()
    started = time.perf_counter()
    flagstone.connect(db, connection=connection, columns=COLUMNS)
    rows = connection.execute(SQL.format("comments")).fetchall()
    took = time.perf_counter() - started
    db.close()
    return {"seconds": took, "check": float(sum(row[1] for row in rows))}


def by_read_json(arguments: Arguments) -> Result:
    """The same by DuckDB over the file of JSON lines."""
    import duckdb

    connection = duckdb.connect()
    file = arguments["file"].replace("'", "''")
    started = time.perf_counter()
    rows = connection.execute(SQL.format(f"read_json('{file}')")).fetchall()
    took = time.perf_counter() - started
    return {"seconds": took, "check": float(sum(row[1] for row in rows))}


def mib_of_process() -> Iterator[tuple[str, float]]:
    yield "peak MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # What the process holds by itself, beside pages of mapped files, which the system takes back.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssFile"):
                yield "mapped MiB", int(line.split()[1]) / 1024


def main() -> None:
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    result = globals()[name](arguments)
    result.update(mib_of_process())
    print(json.dumps(result))
    sys.stdout.flush()
    # Libraries that complain about their own shutdown are not measured.
    os._exit(0)


if __name__ == "__main__":
    main()
