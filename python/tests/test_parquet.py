"""The tool with its feature `parquet`: what it writes is read equal by pyarrow, polars and DuckDB,
and what they write is loaded equal.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import flagstone
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.feather as feather  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

TOOL = os.environ.get("FLAGSTONE_TOOL")
pytestmark = pytest.mark.skipif(TOOL is None, reason="cargo xtask python builds the tool for it")

UTC = timezone.utc
Rows = list[dict[str, Any]]

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a": {
        "text": "plain",
        "int": 1,
        "float": 0.1,
        "exact": Decimal("1.10"),
        "big": 2**64,
        "yes": True,
        "at": datetime(2024, 5, 6, 7, 8, 9, 123456, UTC),
        "id": UUID("12345678-1234-5678-1234-567812345678"),
        "bytes": b"\x00\xff",
        "tags": ["x", "y"],
        "author": {"name": "ada", "langs": [{"name": "rust"}, {"name": "c"}]},
        "mixed": 12,
    },
    "b": {"text": "grüße ☃", "int": -(2**63), "float": -1e300, "tags": [], "mixed": "text"},
    "c": {"yes": False, "author": {"name": "", "age": 7}, "mixed": {"deep": [1, "two"]}},
    "d": {"text": "", "exact": Decimal("-12345678901234567890.5"), "mixed": [1, "two"]},
}
COLUMNS = list(DOCUMENTS["a"])
# Of the structs, what is missing is null in a table.
AUTHORS = [
    {"name": "ada", "langs": [{"name": "rust"}, {"name": "c"}], "age": None},
    None,
    {"name": "", "langs": None, "age": 7},
    None,
]


def run(folder: Path, *words: str, code: int = 0) -> str:
    """Runs the tool and returns what it printed."""
    assert TOOL is not None
    done = subprocess.run([TOOL, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A database `db` with a collection `c`, in the folder that is returned."""
    with flagstone.open(tmp_path / "db") as db:
        db.collection("c").update(DOCUMENTS)
    return tmp_path


def exact(value: Any) -> Any:
    """Returns a value with its numbers as decimals: a float stands for the text that it prints."""
    if isinstance(value, dict):
        return {name: exact(part) for name, part in value.items()}
    if isinstance(value, list):
        return [exact(part) for part in value]
    return Decimal(str(value)) if isinstance(value, float) else value


def read(folder: Path, name: str = "db") -> dict[Any, Any]:
    with flagstone.open(folder / name, read_only=True) as db:
        return {key: exact(document.to_dict()) for key, document in db.collection("c").items()}


def in_order(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Returns columns in the order of the column `key`."""
    order = sorted(range(len(found["key"])), key=lambda row: str(found["key"][row]))
    return {name: [values[row] for row in order] for name, values in found.items()}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def expected(column: str) -> list[Any]:
    """Returns what a table has in a column, without extension types."""
    values = [document.get(column) for document in DOCUMENTS.values()]
    if column == "author":
        return AUTHORS
    if column == "id":
        return [value and value.bytes for value in values]
    if column == "mixed":
        return [
            value if value is None else json.dumps(value, separators=(",", ":"))
            for value in values
        ]
    return values


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value.bytes if isinstance(value, UUID) else value


def by_pyarrow(file: Path) -> dict[str, list[Any]]:
    table = pq.read_table(file)
    return {name: [plain(v) for v in table[name].to_pylist()] for name in table.column_names}


def by_polars(file: Path) -> dict[str, list[Any]]:
    frame = pl.read_parquet(file)
    return {name: [plain(v) for v in frame[name].to_list()] for name in frame.columns}


def by_duckdb(file: Path) -> dict[str, list[Any]]:
    # As Python objects its times need a package of time zones.
    table: Any = duckdb.connect().sql(f"SELECT * FROM '{file}'").to_arrow_table()
    return {name: [plain(v) for v in table[name].to_pylist()] for name in table.column_names}


@pytest.mark.parametrize("reader", [by_pyarrow, by_polars, by_duckdb])
def test_a_file_of_parquet_is_read_equal(
    store: Path, reader: Callable[[Path], dict[str, list[Any]]]
) -> None:
    run(store, "export", "db", "c", "--key", "key", "--output", "c.parquet")
    found = in_order(reader(store / "c.parquet"))
    assert list(found)[0] == "key" and set(found) == {"key", *COLUMNS}
    assert found["key"] == list(DOCUMENTS)
    for column in COLUMNS:
        assert found[column] == expected(column), column


WIDE = ["1" * 39, "-" + "9" * 76 + ".5", "1e60", "7"]


@pytest.mark.parametrize("reader", [by_pyarrow, by_polars, by_duckdb])
def test_numbers_of_many_digits_are_text_in_a_file_of_parquet(
    tmp_path: Path, reader: Callable[[Path], dict[str, list[Any]]]
) -> None:
    with flagstone.open(tmp_path / "db") as db:
        for n, literal in enumerate(WIDE):
            part = literal if n == 0 else "0"
            text = f'{{"wide":{literal},"in":[{{"wide":{literal}}}],"most":{"9" * 38},"n":{part}}}'
            db.collection("c").put_json(n, text)
    run(tmp_path, "export", "db", "c", "--key", "key", "--output", "c.parquet")
    found = in_order(reader(tmp_path / "c.parquet"))
    assert found["wide"] == WIDE
    assert found["in"] == [[{"wide": literal}] for literal in WIDE]
    assert found["most"] == [Decimal("9" * 38)] * len(WIDE)
    assert found["n"] == [WIDE[0], "0", "0", "0"]


@pytest.mark.parametrize("name", ["c.parquet", "c.arrow"])
def test_what_was_written_is_loaded_equal(store: Path, name: str) -> None:
    run(store, "export", "db", "c", "--key", "key", "--output", name)
    run(store, "load", "again", "c", name, "--key", "key", "--ignore-blanks")
    found = read(store, "again")
    for document in found.values():
        del document["key"]
    assert found == exact(DOCUMENTS)
    # Text of JSON is JSON again.
    assert found["c"]["mixed"] == {"deep": [1, "two"]}


def test_files_and_streams_of_arrow_are_read_equal(store: Path) -> None:
    words = ["export", "db", "c", "--key", "key"]
    run(store, *words, "--output", "c.arrow")
    assert TOOL is not None
    piped = subprocess.run(
        [TOOL, *words, "--format", "arrow"], cwd=store, capture_output=True, check=True
    )
    (store / "c.arrows").write_bytes(piped.stdout)
    tables = [
        pa.ipc.open_file(store / "c.arrow").read_all(),
        pa.ipc.open_stream(piped.stdout).read_all(),
    ]
    for table in tables:
        columns = {name: table[name].to_pylist() for name in table.column_names}
        columns = in_order({name: [plain(v) for v in all] for name, all in columns.items()})
        for column in COLUMNS:
            assert columns[column] == expected(column), column
    frame = pl.read_ipc(store / "c.arrow").sort("key")
    assert frame["tags"].to_list() == expected("tags")
    run(store, "load", "again", "c", "c.arrows", "--key", "text", code=2)


def test_a_filter_and_columns_choose(store: Path) -> None:
    fields = "author.name,$key,$.tags[0],missing"
    run(store, "export", "db", "c", '{"int":{"$gt":0}}', "-o", "c.parquet", "--fields", fields)
    assert pq.read_table(store / "c.parquet").to_pylist() == [
        {"author.name": "ada", "$key": "a", "tags[0]": "x", "missing": None}
    ]
    run(store, "export", "db", "c", '{"int":7}', "-o", "none.parquet", "--fields", "int")
    assert pq.read_table(store / "none.parquet").num_rows == 0


def test_a_sample_of_types_that_does_not_hold_ends_the_export(store: Path) -> None:
    words = ["export", "db", "c", "--sort", "-int", "-o", "c.parquet", "--sample", "1"]
    text = run(store, *words, code=2)
    assert "document" in text and "column" in text and "expected" in text
    assert not list(store.glob("c.parquet*"))


def test_generated_comments_pass_through_a_file(tmp_path: Path) -> None:
    run(tmp_path, "generate", "comments", "--count", "20000", "--output", "c.jsonl")
    run(tmp_path, "load", "db", "c", "c.jsonl")
    run(tmp_path, "export", "db", "c", "--output", "c.parquet")
    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    wanted = {line["id"]: without_nulls(line) for line in lines}
    rows = pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert {row["id"] for row in rows} == set(wanted)
    run(tmp_path, "load", "again", "c", "c.parquet", "--ignore-blanks")
    found = read(tmp_path, "again")
    assert len(found) == len(wanted)
    assert all(without_nulls(found[key]) == wanted[key] for key in wanted)
    frame = pl.read_parquet(tmp_path / "c.parquet", columns=["score"])
    mean = sum(line["score"] for line in lines) / len(lines)
    assert frame["score"].mean() == pytest.approx(mean)


TABLE = pa.table(
    {
        "id": pa.array([f"k{n}" for n in range(3000)]),
        "n": pa.array(range(3000), pa.int16()),
        "price": pa.array([Decimal(n) / 100 for n in range(3000)], pa.decimal128(9, 2)),
        "day": pa.array([date(2024, 1, 1 + n % 28) for n in range(3000)]),
        "tags": pa.array([[str(n)] * (n % 3) for n in range(3000)]),
        "author": pa.array([{"name": f"x{n % 7}", "age": n} for n in range(3000)]),
    }
)
WANTED = {
    row["id"]: {
        **row,
        "day": datetime.combine(row["day"], datetime.min.time(), UTC),
    }
    for row in TABLE.to_pylist()
}


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
def test_files_of_pyarrow_are_loaded_equal(tmp_path: Path, compression: str) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet", compression=compression, row_group_size=1000)
    run(tmp_path, "load", "db", "c", "t.parquet")
    assert read(tmp_path) == exact(WANTED)


def test_files_of_polars_duckdb_and_feather_are_loaded_equal(tmp_path: Path) -> None:
    frame = pl.from_arrow(TABLE)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(tmp_path / "polars.parquet")
    frame.write_ipc(tmp_path / "polars.arrow", compression="zstd")
    # DuckDB finds the table by the name of the variable.
    connection = duckdb.connect()
    connection.register("t", TABLE)
    connection.execute(f"COPY t TO '{tmp_path / 'duckdb.parquet'}' (FORMAT parquet)")
    feather.write_feather(TABLE, str(tmp_path / "t.feather"))
    for name in ("polars.parquet", "polars.arrow", "duckdb.parquet", "t.feather"):
        run(tmp_path, "load", name + ".db", "c", name)
        assert read(tmp_path, name + ".db") == exact(WANTED), name


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows"])
def test_rows_and_columns_of_a_file_are_chosen(tmp_path: Path, name: str) -> None:
    # A column of a type without a form does no harm if it is not read.
    times = pa.array([None] * 3000, pa.time64("us"))
    table = TABLE if name == "t.arrows" else TABLE.append_column("time", times)
    if name == "t.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=1000)
    else:
        new = pa.ipc.new_file if name == "t.arrow" else pa.ipc.new_stream
        with new(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    words = ["load", "db", "c", name, "--fields", "n,tags"]
    run(tmp_path, *words, "--filter", '{"author.age":{"$gte":2990},"tags":"2993"}')
    assert read(tmp_path) == {"k2993": {"n": 2993, "tags": ["2993", "2993"]}}
    run(tmp_path, "load", "all", "c", name, "--fields", "id, n")
    assert read(tmp_path, "all")["k7"] == {"id": "k7", "n": 7} and len(read(tmp_path, "all")) == 3000
    for option, value, text in (
        ("--fields", "id,name", 'no column "name" among id, n, price'),
        ("--filter", '{"n":{"$foo":1}}', "$foo"),
        ("--filter", '{"$key":"k1"}', "$key"),
    ):
        assert text in run(tmp_path, "load", "none", "c", name, option, value, code=2)
    assert not (tmp_path / "none").exists()
    (tmp_path / "t.jsonl").write_text('{"id":1}\n')
    assert "--filter" in run(tmp_path, "load", "none", "c", "t.jsonl", "--filter", "{}", code=2)


def test_modes_keep_and_merge(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "db") as db:
        db.collection("c")["k1"] = {"id": "k1", "n": -1, "old": True}
    pq.write_table(TABLE.slice(0, 3).select(["id", "n"]), tmp_path / "t.parquet")
    run(tmp_path, "load", "db", "c", "t.parquet", "--mode", "insert")
    assert read(tmp_path)["k1"]["n"] == -1 and len(read(tmp_path)) == 3
    run(tmp_path, "load", "db", "c", "t.parquet", "--mode", "merge")
    assert read(tmp_path)["k1"] == {"id": "k1", "n": 1, "old": True}


def test_what_has_no_form_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    naive = pa.table({"id": ["a"], "at": pa.array([datetime(2024, 1, 1)])})
    pq.write_table(naive, tmp_path / "naive.parquet")
    text = run(tmp_path, "load", "db", "c", "naive.parquet", code=2)
    assert "naive.parquet" in text and "column at" in text and "--naive-utc" in text
    assert not (tmp_path / "db").exists()
    run(tmp_path, "load", "db", "c", "naive.parquet", "--naive-utc")
    assert read(tmp_path)["a"]["at"] == datetime(2024, 1, 1, tzinfo=UTC)
    assert "--all-text" in run(tmp_path, "load", "db2", "c", "naive.parquet", "--all-text", code=2)
    assert not (tmp_path / "db2").exists()


def test_a_row_without_a_key_ends_the_load_and_what_was_loaded_is_said(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a", "b", None, "d"]}), tmp_path / "t.parquet")
    text = run(tmp_path, "load", "db", "c", "t.parquet", code=2)
    assert "t.parquet" in text and "row 2" in text and "2 documents were loaded" in text
    assert list(read(tmp_path)) == ["a", "b"]


BAD = pa.table(
    {
        "id": ["a", None, "c", "d", "a"],
        "n": [1, 2, 3, 4, 5],
        # A document does not support nanoseconds.
        "at": pa.array([0, 0, 1, 0, 0], pa.timestamp("ns", "UTC")),
    }
)


def test_rows_that_cannot_be_loaded_are_copied(tmp_path: Path) -> None:
    pq.write_table(BAD, tmp_path / "t.parquet")
    words = ["load", "db", "c", "t.parquet", "--bad-lines", "bad.jsonl"]
    run(tmp_path, *words, "--mode", "insert")
    assert {key: document["n"] for key, document in read(tmp_path).items()} == {"a": 1, "d": 4}
    lines = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert lines[0] == "# t.parquet: row 1: column id: expected a key, found none"
    assert json.loads(lines[1])["n"] == 2
    assert lines[2].startswith("# t.parquet: row 2, column at: ")
    assert lines[3] == "# t.parquet: row 4: a document with this key exists"
    assert json.loads(lines[4])["n"] == 5
    # A unique index refuses the second of two rows that are new.
    with flagstone.open(tmp_path / "db") as db:
        db.collection("u").create_index("one", "$.n", unique=True)
    pq.write_table(pa.table({"id": ["x", "y", "z"], "n": [7, 7, 8]}), tmp_path / "u.parquet")
    run(tmp_path, "load", "db", "u", "u.parquet", "--bad-lines", "bad.jsonl")
    [why, row] = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert why.startswith("# u.parquet: row 1: ") and json.loads(row) == {"id": "y", "n": 7}
    assert run(tmp_path, "count", "db", "u") == "2\n"
    overwritten = run(tmp_path, "load", "db", "c", "t.parquet", "--bad-lines", "t.parquet", code=2)
    assert "would overwrite it" in overwritten


@pytest.mark.parametrize("mode", ["upsert", "insert", "merge"])
def test_a_load_that_ended_early_is_continued(tmp_path: Path, mode: str) -> None:
    pq.write_table(TABLE, tmp_path / "first.parquet", row_group_size=1000)
    ids: list[str | None] = [f"k{n}" for n in range(3000, 6000)]
    ids[2000] = None
    second = TABLE.set_column(0, "id", pa.array(ids))
    pq.write_table(second, tmp_path / "second.parquet", row_group_size=1000)
    words = ["load", "db", "c", "first.parquet", "second.parquet", "--mode", mode, "--resume"]
    assert "row 2000" in run(tmp_path, *words, code=2)
    assert run(tmp_path, "count", "db", "c") == "5000\n"
    # What was loaded is not written again.
    with flagstone.open(tmp_path / "db") as db:
        db.collection("c")["k7"] = {"id": "k7", "changed": True}
        db.collection("c")["k3007"] = {"id": "k3007", "changed": True}
    text = run(tmp_path, *words, "--fields", "id", code=2)
    assert "--fields" in text and "without --resume" in text
    pq.write_table(second.slice(0, 1000), tmp_path / "second.parquet")
    assert "checksum" in run(tmp_path, *words, code=2)
    pq.write_table(second, tmp_path / "second.parquet", row_group_size=1000)
    assert "row 2000" in run(tmp_path, *words, code=2)
    found = read(tmp_path)
    assert len(found) == 5000
    assert found["k7"] == {"id": "k7", "changed": True}
    assert found["k3007"] == {"id": "k3007", "changed": True}
    # A corrected file is another one: its load begins at the start.
    ids[2000] = "k5000"
    pq.write_table(second.set_column(0, "id", pa.array(ids)), tmp_path / "second.parquet")
    assert "checksum" in run(tmp_path, *words, code=2)
    run(tmp_path, "load", "db", "c", "first.parquet", "second.parquet")
    assert len(read(tmp_path)) == 6000
    assert read(tmp_path)["k7"]["n"] == 7


def test_a_load_that_was_complete_loads_nothing_again(tmp_path: Path) -> None:
    pq.write_table(BAD, tmp_path / "t.parquet")
    words = ["load", "db", "c", "t.parquet", "--bad-lines", "bad.jsonl", "--resume"]
    run(tmp_path, *words, "--mode", "insert")
    assert set(read(tmp_path)) == {"a", "d"}
    with flagstone.open(tmp_path / "db") as db:
        del db.collection("c")["a"]
    for _ in range(2):
        run(tmp_path, *words, "--mode", "insert")
        assert set(read(tmp_path)) == {"d"}
    # Another file, or another way to load it, begins at the start.
    run(tmp_path, *words, "--fields", "n")
    assert set(read(tmp_path)) == {"a", "c", "d"}
    pq.write_table(BAD.slice(3), tmp_path / "t.parquet")
    run(tmp_path, *words, "--fields", "n")
    assert read(tmp_path)["a"] == {"n": 5}


def test_shards_of_a_file_make_the_whole(tmp_path: Path) -> None:
    keys = [f"k{n % 700}" for n in range(1000)]
    pq.write_table(pa.table({"id": keys, "n": range(1000)}), tmp_path / "t.parquet")
    words = ["load", "db", "c", "t.parquet", "--resume", "--shard"]
    sizes = []
    for shard in ("1/3", "2/3", "3/3"):
        run(tmp_path, *words, shard)
        sizes.append(len(read(tmp_path)))
    assert 100 < sizes[0] < sizes[1] - 100 < sizes[2] - 200
    found = read(tmp_path)
    assert {key: row["n"] for key, row in found.items()} == dict(zip(keys, range(1000)))
    # Each has marks of its own.
    with flagstone.open(tmp_path / "db") as db:
        for key in ("k1", "k2", "k3", "k4", "k5", "k6"):
            del db.collection("c")[key]
    for shard in ("1/3", "2/3", "3/3"):
        run(tmp_path, *words, shard)
    assert len(read(tmp_path)) == 694


def test_what_is_refused_drops_nothing(tmp_path: Path) -> None:
    with flagstone.open(tmp_path / "db") as db:
        db.collection("c")["k"] = {"n": 0}
        db.collection("c").create_index("by_n", "n")
    pq.write_table(BAD, tmp_path / "good.parquet")
    pq.write_table(BAD.slice(1), tmp_path / "no_key.parquet")
    feather.write_feather(BAD.slice(2), tmp_path / "time.arrow")
    for words, wanted in (
        (["no_key.parquet"], "no_key.parquet: 0 documents were loaded, and then: row 0"),
        (["good.parquet", "time.arrow"], "column at"),
        (["good.parquet", "--key", "nope"], 'no column of the key "nope"'),
        (["good.parquet", "--fields", "nope"], 'no column "nope"'),
        (["no_key.parquet", "--mode", "merge"], "expected a key"),
    ):
        refused = run(tmp_path, "load", "db", "c", *words, "--drop", code=2)
        assert wanted in refused, refused
        assert read(tmp_path) == {"k": {"n": 0}}
        assert "by_n" in run(tmp_path, "index", "list", "db", "c")
    run(tmp_path, "load", "db", "c", "no_key.parquet", "--drop", "--bad-lines", "bad.jsonl")
    assert set(read(tmp_path)) == {"a", "d"}


def test_stdin_is_a_stream_of_arrow_and_no_file(tmp_path: Path) -> None:
    """A file on stdin was an error of a buffer that is not filled."""
    assert TOOL is not None
    table = pa.table({"id": [1, 2]})

    def load(write: Callable[[Any, Any], Any], name: str) -> subprocess.CompletedProcess[bytes]:
        sink = pa.BufferOutputStream()
        with write(sink, table.schema) as writer:
            writer.write_table(table)
        command = [TOOL, "load", "db", name, "-", "--type", "arrow"]
        given = sink.getvalue().to_pybytes()
        return subprocess.run(command, cwd=tmp_path, input=given, capture_output=True, timeout=60)

    assert load(pa.ipc.new_stream, "c").returncode == 0
    assert run(tmp_path, "count", "db", "c") == "2\n"
    refused = load(pa.ipc.new_file, "c")
    assert refused.returncode == 2 and b"is read from its end: name it" in refused.stderr


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("id,score\n1,2\n")
    (tmp_path / "text.arrow").write_text("id,score\n1,2\n")
    (tmp_path / "empty.parquet").touch()
    for name, wanted in (
        ("text.parquet", "begins with PAR1"),
        ("text.arrow", "begins with ARROW1"),
        ("empty.parquet", "begins with PAR1"),
        ("missing.parquet", "No such file"),
    ):
        text = run(tmp_path, "load", "db", "c", name, code=3)
        assert name in text and wanted in text
    pq.write_table(TABLE, tmp_path / "b.parquet", compression="brotli")
    assert "b.parquet" in run(tmp_path, "load", "db", "c", "b.parquet", code=3)
    # A load that failed leaves no empty collection.
    assert 'no collection "c"' in run(tmp_path, "count", "db", "c", code=1)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows"])
def test_damaged_files_end_with_an_error_and_what_was_loaded_is_there(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    small = TABLE.slice(0, 500)
    if name == "t.parquet":
        pq.write_table(small, file, row_group_size=100)
    else:
        new = pa.ipc.new_file if name == "t.arrow" else pa.ipc.new_stream
        with new(str(file), small.schema) as writer:
            writer.write_table(small, max_chunksize=100)
    whole, draw = file.read_bytes(), random.Random(19)
    assert TOOL is not None
    for turn in range(60):
        damaged = bytearray(whole)
        if turn % 3 == 0:
            del damaged[draw.randrange(len(whole)) :]
        else:
            for _ in range(1 + turn % 3):
                damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        done = subprocess.run(
            [TOOL, "load", f"db{turn}", "c", name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        # A byte of a value is another value; Parquet of pyarrow has no checksums.
        assert done.returncode in (0, 2, 3), (turn, done.stderr)
        if done.returncode:
            assert name in done.stderr, (turn, done.stderr)
