"""Documents as Arrow, read by pyarrow, polars, pandas and DuckDB."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from typing import Any

import flagstone
import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
UTC = datetime.timezone.utc


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def rows(source: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(source).to_pylist()
    return found


def test_each_type_of_value_has_a_column(c: flagstone.Collection) -> None:
    at = datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    document = {
        "bool": True,
        "int": -5,
        "float": 0.5,
        "text": "\u00e9",
        "bytes": b"\x00\xff",
        "time": at,
        "uuid": uuid.UUID(int=7),
        "oid": flagstone.ObjectId("56e1fc72e0c917e9c4714161"),
        "list": [1, None, 3],
        "map": {"a": 1, "b": {"c": "d"}},
        "null": None,
        "large": 2**70,
        "price": Decimal("12345678901234567.10"),
        "mixed": [1, "a"],
    }
    c["k"] = document
    c["empty"] = {}
    source = c.find().arrow()
    assert source.types == {
        "_key": "text",
        "bool": "bool",
        "int": "int64",
        "float": "float64",
        "text": "text",
        "bytes": "bytes",
        "time": "timestamp",
        "uuid": "uuid",
        "oid": "objectid",
        "list": "list(int64)",
        "map": "struct(a: int64, b: struct(c: text))",
        "null": "json",
        "large": "decimal(22,0)",
        "price": "decimal(18,1)",
        "mixed": "list(json)",
    }
    found = {row.pop("_key"): row for row in rows(source)}
    assert found["empty"] == dict.fromkeys(document)
    assert found["k"] == {
        **document,
        "mixed": ["1", '"a"'],
        "oid": "56e1fc72e0c917e9c4714161",
    }


def test_numbers_are_widened_and_never_wrong(c: flagstone.Collection) -> None:
    def column(*literals: str) -> tuple[str, list[Any]]:
        c.clear()
        for n, literal in enumerate(literals):
            c.put_json(n, f'{{"n":{literal}}}')
        source = c.find().arrow({"k": "$key", "n": "$.n"})
        table = sorted(rows(source), key=lambda row: row["k"])
        return source.types["n"], [row["n"] for row in table]

    assert column("1", "-2", "3e0") == ("int64", [1, -2, 3])
    assert column("1", "0.5", "1.10") == ("float64", [1.0, 0.5, 1.1])
    assert column("1", "9223372036854775808") == ("decimal(19,0)", [1, 2**63])
    exact = ["0.1234567890123456789", "1"]
    assert column(*exact) == ("decimal(20,19)", [Decimal(text) for text in exact])
    assert column("9007199254740993", "0.5") == (
        "decimal(17,1)", [Decimal("9007199254740993"), Decimal("0.5")]
    )
    assert column("1e400", "1") == ("number", ["1e400", "1"])
    assert column("1", '"a"', "true") == ("json", ["1", '"a"', "true"])
    # polars and DuckDB have no decimals of more than 38 digits.
    assert column("1" * 38) == ("decimal(38,0)", [Decimal("1" * 38)])
    assert column("1" * 39, "0.10") == ("number", ["1" * 39, "0.10"])


def test_a_value_that_does_not_fit_is_an_error_or_null(c: flagstone.Collection) -> None:
    c.update({1: {"n": 1, "m": {"x": 1}}, 2: {"n": "two", "m": {"x": []}}})
    columns: dict[str, Any] = {"n": ("$.n", "int64"), "m": "$.m"}
    only_one: dict[str, Any] = {"k": "$key", "n": ("$.n", "int64")}
    with pytest.raises(Exception, match='document 2, column n: expected int64, found "two"'):
        pa.table(c.find().arrow(only_one))
    found = rows(c.find().arrow(only_one, on_mismatch="null"))
    assert sorted(found, key=lambda row: row["k"]) == [{"k": 1, "n": 1}, {"k": 2, "n": None}]
    first = c.find({"n": 1}).arrow(columns)
    assert first.types == {"n": "int64", "m": "struct(x: int64)"}


def test_a_field_that_the_sample_lacks_is_never_lost(c: flagstone.Collection) -> None:
    c.update({n: {"m": {"x": n}, "l": [{"x": n}]} for n in range(1500)})
    c[1400] = {"m": {"x": 1, "y": 2}, "l": [{"x": 1}, {"y": 2}]}
    columns: dict[str, Any] = {"k": "$key", "m": "$.m", "l": "$.l"}
    for name, text in (
        ("m", "expected a struct without the field y, found 2; a larger sample"),
        ("l", r"expected \[1\]: a struct without the field y, found 2"),
    ):
        with pytest.raises(Exception, match=f"document 1400, column {name}: {text}"):
            pa.table(c.find().arrow({name: f"$.{name}"}))
    table = pa.table(c.find().arrow(columns, on_mismatch="null"))
    found = {row.pop("k"): row for row in table.to_pylist()}
    assert found[1400] == {"m": None, "l": [{"x": 1}, None]}
    assert found[7] == {"m": {"x": 7}, "l": [{"x": 7}]}
    whole = pa.table(c.find().arrow(columns, sample=1500))
    assert {"x": 1, "y": 2} in whole["m"].to_pylist()


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"columns": {"a": "$.a[*]"}}, flagstone.InvalidInput, "names and indexes alone"),
        ({"columns": {"a": "$["}}, flagstone.InvalidInput, "expected"),
        ({"columns": {"a": ("$.a", "int32")}}, flagstone.InvalidInput, "int32"),
        ({"columns": {"a": ("$.a", "decimal(77,0)")}}, flagstone.InvalidInput, "decimal"),
        ({"columns": {"a": ("$.a", "struct()")}}, flagstone.InvalidInput, "at least one field"),
        ({"columns": {"a": ("$.a", "struct(b,b)")}}, flagstone.InvalidInput, "a name and a type"),
        ({"columns": {"a": "a..b"}}, flagstone.InvalidInput, "before and after each point"),
        ({"columns": {"a": ("a.", "int64")}}, flagstone.InvalidInput, r'path "a\."'),
        ({"columns": [""]}, flagstone.InvalidInput, 'path ""'),
        ({"columns": {"a": 1}}, TypeError, "column a: expected a path"),
        ({"columns": "a"}, TypeError, "expected a dict"),
        ({"columns": {}}, flagstone.InvalidInput, "expected a column"),
        ({"columns": ["a", "$.a"]}, flagstone.InvalidInput, "two columns named"),
        ({"on_mismatch": "ignore"}, flagstone.InvalidInput, "ignore"),
        ({"batch_rows": 0}, flagstone.InvalidInput, "at least 1"),
        ({"threads": 0}, flagstone.InvalidInput, "at least 1"),
    ],
)
def test_wrong_columns_are_refused(
    c: flagstone.Collection, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        c.find().arrow(**arguments)


def test_batches_hold_what_json_loads_reads(c: flagstone.Collection) -> None:
    values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.booleans()
    documents = st.dictionaries(st.sampled_from("abc"), values | st.lists(values, max_size=3))

    @given(st.lists(documents, min_size=1, max_size=20))
    def check(all: list[dict[str, Any]]) -> None:
        c.clear()
        c.update(enumerate(all))
        columns: dict[str, Any] = {"_key": "$key", **{name: (name, "json") for name in "abc"}}
        table = pa.table(c.find().arrow(columns, batch_rows=3))
        for row in table.to_pylist():
            document = all[row.pop("_key")]
            found = {name: json.loads(text) for name, text in row.items() if text is not None}
            assert found == {name: v for name, v in document.items() if v is not None}
        assert table.num_rows == len(all)

    check()


ODD = st.sampled_from(
    [
        None, True, 0, 1, -(2**63), 2**63, 2**70, 0.0, -0.0, 0.1, 1e300, Decimal("1.10"), "", "a",
        "a\0b", "long" * 400, {}, {"y": 1, "x": [1]}, b"\0", uuid.UUID(int=1),
        datetime.datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01t02:00:00.123456789+02:00",
    ]
)


def test_a_column_of_timestamps_takes_text_by_rfc_3339(c: flagstone.Collection) -> None:
    """It refused all text, which is what times of JSON are."""
    c.update(
        {
            1: {"at": "2001-01-01T00:00:00Z"},
            2: {"at": "2001-01-01t02:00:00.123456789+02:00"},
            3: {"at": "2016-12-31 23:59:60Z"},
            4: {"at": datetime.datetime(2001, 1, 1, tzinfo=UTC)},
        }
    )
    columns: dict[str, Any] = {"_key": "$key", "at": ("$.at", "timestamp")}
    found = {row["_key"]: row["at"] for row in rows(c.find().arrow(columns))}
    assert found == {
        1: datetime.datetime(2001, 1, 1, tzinfo=UTC),
        2: datetime.datetime(2001, 1, 1, microsecond=123456, tzinfo=UTC),
        3: datetime.datetime(2017, 1, 1, tzinfo=UTC),
        4: datetime.datetime(2001, 1, 1, tzinfo=UTC),
    }
    c[5] = {"at": "2001-02-30T00:00:00Z"}
    with pytest.raises(Exception, match='document 5, column at: expected timestamp, found "2001-02'):
        rows(c.find().arrow(columns))


def test_an_index_fills_columns_as_documents_do(c: flagstone.Collection) -> None:
    c.create_index("i", "$.a", "-$.b")
    kinds = st.sampled_from(["int64", "float64", "text", "bool", "timestamp", "decimal(40,2)"])
    documents = st.dictionaries(st.sampled_from("ab"), ODD)

    @given(st.lists(documents, min_size=1, max_size=20), kinds, kinds)
    def check(all: list[dict[str, Any]], a: str, b: str) -> None:
        c.clear()
        c.update(enumerate(all))
        columns: dict[str, Any] = {"_key": "$key", "a": ("$.a", a), "b": ("$.b", b)}
        covered = c.find().arrow(columns, on_mismatch="null")
        assert "covers the query" in covered.explain()
        # A field that no index has.
        columns["other"] = ("$.other", "json")
        scanned = c.find().arrow(columns, on_mismatch="null")
        assert "covers the query" not in scanned.explain()
        found = sorted(rows(covered), key=lambda row: row["_key"])
        expected = sorted(rows(scanned), key=lambda row: row["_key"])
        assert repr(found) == repr([{n: row[n] for n in ("_key", "a", "b")} for row in expected])

    check()


def test_several_threads_fill_a_stream_of_one_moment(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    count = 70_000
    c.update((n, {"n": n, "s": f"s{n % 9}"}) for n in range(count))
    c.create_index("i", "$.s", "$.n")
    db.flush()
    for columns in ({"n": ("$.n", "int64")}, {"n": ("$.n", "int64"), "t": ("$.t", "json")}):
        source = c.find().arrow(columns, batch_rows=1000, threads=3)
        readers = [pa.RecordBatchReader.from_stream(source) for _ in range(2)]
        c.find({"s": "s1"}).delete()
        c.update((n, {"n": -1, "s": "s2"}) for n in range(0, count, 3))
        for reader in readers:
            found = reader.read_all()["n"].to_pylist()
            assert sorted(found) == list(range(count))
        del readers
        c.update((n, {"n": n, "s": f"s{n % 9}"}) for n in range(count))
    # One that is dropped half-way ends its threads.
    batches = source.batches()
    assert len(next(batches)) == 1000
    del batches


def test_what_an_index_knows_widens_the_types(c: flagstone.Collection) -> None:
    c.update({n: {"id": n, "n": n, "s": "text", "f": 1} for n in range(50)})
    # Not in the sample, which has the order of the query.
    c.update({99: {"id": 99, "n": 2**64, "s": 1, "f": 0.5}})
    find = c.find(sort="id")
    columns = {"n": "$.n", "s": "$.s", "f": "$.f"}
    assert find.arrow(columns, sample=50).types == {"n": "int64", "s": "text", "f": "int64"}
    for name in "nsf":
        c.create_index(name, name)
    widened = {"n": "decimal(20,0)", "s": "json", "f": "float64"}
    assert find.arrow(columns, sample=50).types == widened
    assert find.arrow(sample=50, key=None).types == {"id": "int64", **widened}
    assert pa.table(c.find().arrow(columns, sample=50)).num_rows == 51
    assert c.find({"n": {"$lte": 2**64}}, sort="id").arrow(columns, sample=50).types["n"] == "int64"


def test_a_source_is_read_as_often_as_one_likes(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({n: {"n": n} for n in range(10_000)})
    source = c.find({"n": {"$gte": 5_000}}).arrow(batch_rows=1000)
    assert [len(batch) for batch in source.batches()] == [1000] * 5
    assert pa.table(source).num_rows == pa.table(source).num_rows == 5000
    c[10_000] = {"n": 10_000}
    assert pa.table(source).num_rows == 5001
    assert pa.table(c.find(limit=3)).num_rows == 3
    with pytest.raises(flagstone.InvalidInput, match="not by a transaction"):
        db.transaction()[c].find().arrow()


def test_a_snapshot_is_a_source(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"] = {"n": 1}
    with db.snapshot() as snapshot:
        c["b"] = {"n": 2}
        assert rows(snapshot[c].find().arrow()) == [{"_key": "a", "n": 1}]


def test_a_stream_of_a_closed_database_is_an_error(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({n: {"n": n} for n in range(100)})
    source = c.find().arrow(batch_rows=10)
    reader = pa.RecordBatchReader.from_stream(source)
    batches = source.batches()
    next(batches)
    reader.read_next_batch()
    db.close()
    with pytest.raises(Exception, match="closed"):
        reader.read_all()
    with pytest.raises(flagstone.Closed):
        next(batches)
    with pytest.raises(flagstone.Closed):
        source.__arrow_c_stream__()


def test_polars_reads_a_query(c: flagstone.Collection) -> None:
    polars = pytest.importorskip("polars")
    c.update({n: {"n": n, "s": "ab"[n % 2], "other": [n]} for n in range(1000)})
    frame = polars.DataFrame(c.find({"n": {"$lt": 10}}).arrow({"n": "$.n", "s": "$.s"}))
    assert frame.group_by("s").agg(polars.col("n").sum()).sort("s").rows() == [("a", 20), ("b", 25)]
    lazy = flagstone.scan(c)
    assert lazy.filter(polars.col("n") >= 990).select("n").collect()["n"].sum() == sum(
        range(990, 1000)
    )
    assert len(lazy.head(7).collect()) == 7
    assert lazy.select(polars.len()).collect().item() == 1000
    assert c.find().arrow().to_polars().columns == ["_key", "n", "s", "other"]


def test_duckdb_reads_collections(db: flagstone.Database, c: flagstone.Collection) -> None:
    pytest.importorskip("duckdb")
    c.update({n: {"n": n, "s": "ab"[n % 2], "nested": {"x": n}} for n in range(1000)})
    db.collection("empty")
    db.keyspace("bytes")[b"a"] = b"1"
    connection = flagstone.connect(db)
    sql = "SELECT s, count(*), avg(n), max(nested.x) FROM c WHERE n < 10 GROUP BY s ORDER BY s"
    assert connection.execute(sql).fetchall() == [("a", 5, 4.0, 8), ("b", 5, 5.0, 9)]
    assert connection.execute(sql).fetchall() == [("a", 5, 4.0, 8), ("b", 5, 5.0, 9)]


def test_pandas_reads_a_query(c: flagstone.Collection) -> None:
    pytest.importorskip("pandas")
    c.update({n: {"n": n} for n in range(10)})
    frame = c.find().arrow({"n": "$.n"}).to_pandas()
    assert frame["n"].sum() == 45


def test_a_query_has_columns_of_its_own(c: flagstone.Collection) -> None:
    pl = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    c.update((n, {"author": "xy"[n % 2], "score": n}) for n in range(6))
    find = c.find({"score": {"$gte": 2}}, sort="score", columns={"author": "$.author", "n": "$.score"})
    rows = [("x", 2), ("y", 3), ("x", 4), ("y", 5)]
    assert find.arrow().types == {"author": "text", "n": "int64"}
    assert find.to_polars().rows() == pl.DataFrame(find).rows() == rows
    assert find.to_pandas()["n"].tolist() == [2, 3, 4, 5]
    assert find.to_pyarrow({"n": ("$.score", "float64")}, batch_rows=2).schema.names == ["n"]
    assert flagstone.scan(find).filter(pl.col("n") > 3).collect().rows() == rows[2:]
    assert find.first() == (2, {"author": "x", "score": 2})
    assert c.arrow({"n": "$.score"}, threads=1).to_polars()["n"].sum() == 15
    assert c.arrow(key=None).types == c.find().arrow(key=None).types
    with pytest.raises(TypeError, match="columns: expected"):
        c.find(columns=5)  # type: ignore[arg-type]
    for call in (c.find, c.find().to_pandas, c.arrow):
        with pytest.raises(flagstone.InvalidInput, match="JSONPath, character 3"):
            call(columns={"a": "$["})
