"""Predicates of polars and DuckDB that are answered by indexes."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import flagstone
import pytest
from flagstone import pushdown, pushdown_pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

pl = pytest.importorskip("polars")
UTC = datetime.timezone.utc
DAY = datetime.datetime(2020, 1, 1, tzinfo=UTC)

KINDS: dict[str, Any] = {
    "k": "$key",
    "i": ("$.i", "int64"),
    "f": ("$.f", "float64"),
    "s": ("$.s", "text"),
    "b": ("$.b", "bool"),
    "t": ("$.t", "timestamp"),
    "d": ("$.d", "decimal(20,2)"),
    "x": ("$.m.x", "int64"),
    "j": ("$.j", "json"),
}
INTS = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1])
FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 1.5, 2.0**53, 1e300, math.inf, math.nan])
TEXTS = st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600"])
TIMES = st.sampled_from([DAY, DAY + datetime.timedelta(microseconds=1), DAY.replace(year=1)])
# A column of timestamps takes them, too.
TIME_TEXTS = st.sampled_from(["2020-01-01T00:00:00Z", "2020-01-01t01:00:00.0000019+01:00"])
DECIMALS = st.sampled_from([Decimal("0"), Decimal("0.10"), Decimal("-1.5"), Decimal(10**17)])
OF = {
    "i": INTS, "f": FLOATS, "s": TEXTS, "b": st.booleans(), "t": TIMES, "d": DECIMALS, "x": INTS,
    "k": TEXTS,
}


def maybe(values: Any) -> Any:
    return st.none() | values


DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "i": maybe(INTS),
        "f": maybe(FLOATS | st.sampled_from([1, 2, 2**53])),
        "s": maybe(TEXTS),
        "b": maybe(st.booleans()),
        "t": maybe(TIMES | TIME_TEXTS),
        "d": maybe(DECIMALS),
        "m": maybe(st.fixed_dictionaries({}, optional={"x": maybe(INTS)}) | INTS | st.just([])),
        "j": maybe(INTS | TEXTS | st.lists(INTS, max_size=2)),
    },
)


@st.composite
def comparisons(draw: Any) -> Any:
    name = draw(st.sampled_from(sorted(OF)))
    column = pl.col(name)
    value = draw(OF[name])
    other = draw(OF[name])
    # Also literals of another type.
    if name in ("i", "f", "x") and draw(st.booleans()):
        value = draw(INTS | FLOATS)
    return draw(
        st.sampled_from(
            [
                column == value,
                column != value,
                column < value,
                column <= value,
                column > value,
                column >= value,
                pl.lit(value) > column,
                column.is_in([other, value] if type(other) is type(value) else [other]),
                column.is_null(),
                column.is_not_null(),
                column.is_between(min(other, value), max(other, value), closed="left")
                if type(other) is type(value)
                else column.is_not_null(),
                column if name == "b" else column.is_null(),
                column.str.starts_with(value) if name in ("s", "k") else column.is_not_null(),
                pl.col("j") == '"a"',
            ]
        )
    )


PREDICATES = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("on_mismatch", ["error", "null"])
def test_polars_finds_what_it_finds_in_a_frame(
    db: flagstone.Database, on_mismatch: Any
) -> None:
    c = db.collection("c")
    for name in ("i", "f", "s", "b", "t", "d", "m.x"):
        c.create_index(f"by {name}", f"$.{name}")

    @settings(max_examples=300)
    @given(st.dictionaries(TEXTS, DOCUMENTS, max_size=6), PREDICATES)
    def check(documents: dict[str, Any], predicate: Any) -> None:
        c.clear()
        c.update(documents)
        if on_mismatch == "null":
            c["misfit"] = dict.fromkeys("ifsbtdj", [1]) | {"m": {"x": "text"}}
        whole = pl.DataFrame(c.find().arrow(KINDS, on_mismatch=on_mismatch))
        try:
            expected = whole.lazy().filter(predicate).collect()
        except pl.exceptions.PolarsError:
            return
        found = flagstone.scan(c, KINDS, on_mismatch=on_mismatch).filter(predicate).collect()
        assert found.sort("k").equals(expected.sort("k")), predicate

    check()


def test_a_pushed_filter_reads_the_index(db: flagstone.Database) -> None:
    c = db.collection("c")
    c.update({
        n: {"i": n, "f": n / 2, "s": f"s{n:03}", "b": n % 500 == 0, "t": DAY, "m": {"x": n}}
        for n in range(1000)
    })
    for name in ("i", "f", "s", "b", "m.x"):
        c.create_index(f"by {name}", f"$.{name}")
    cases = [
        ("i", pl.col("i") > 990, 9),
        ("i", 10 > pl.col("i"), 10),
        ("i", pl.col("i").is_in([1, 5, 2000]), 2),
        ("i", (pl.col("i") == 1) | (pl.col("i") == 7), 2),
        ("i", pl.col("i").is_between(3, 5) & (pl.col("t") == DAY), 3),
        ("i", ~(pl.col("i") > 3), 4),
        ("f", pl.col("f") >= 499, 2),
        ("s", pl.col("s").str.starts_with("s99"), 10),
        ("s", pl.col("s") == "s500", 1),
        ("b", pl.col("b"), 2),
        ("m.x", pl.col("x") <= 2, 3),
        ("i", (pl.col("i") < 5) & (pl.col("s").str.len_chars() == 4), 5),
    ]
    columns = {name: of for name, of in KINDS.items() if name != "k"}
    for name, predicate, count in cases:
        assert flagstone.scan(c, columns).filter(predicate).collect().height == count
        explained = flagstone.explain_scan(c, predicate, columns)
        assert f'index "by {name}"' in explained, (predicate, explained)
    assert "scan" in flagstone.explain_scan(c, pl.col("i") % 2 == 1, columns)


def test_what_is_cut_or_projected_is_not_filtered_before(db: flagstone.Database) -> None:
    c = db.collection("c")
    c.update({n: {"i": n, "j": n} for n in range(100)})
    cut = flagstone.scan(c.find(sort="i", limit=10), {"i": "$.i"}).filter(pl.col("i") > 5)
    assert cut.collect()["i"].to_list() == [6, 7, 8, 9]
    cut = flagstone.scan(c.find(sort="i", skip=97), {"i": "$.i"}).filter(pl.col("i") > 5)
    assert cut.collect()["i"].to_list() == [97, 98, 99]
    part = flagstone.scan(c.find(fields=["j"]), {"i": ("$.i", "int64"), "j": "$.j"})
    assert part.filter(pl.col("i").is_null()).collect().height == 100


def test_names_that_need_quotes_are_found(db: flagstone.Database) -> None:
    c = db.collection("c")
    names = ["a.b", 'q"uo\\te', "$x", "\u00e9 ", "line\nend", "0", "[1]"]
    c.update({n: {name: n for name in names} for n in range(20)})
    for name in names:
        assert flagstone.scan(c).filter(pl.col(name) == 7).collect().height == 1
        assert "$eq" in str(pushdown.of_polars(
            pl.col(name) == pl.lit(7, pl.Int64), pushdown.Columns(c.find().arrow())
        ))


def test_an_unknown_expression_is_left_to_polars(db: flagstone.Database) -> None:
    c = db.collection("c")
    c["a"] = {"i": 1}
    columns = pushdown.Columns(c.find().arrow())

    class Changed:
        meta = None

    assert pushdown.of_polars(Changed(), columns) is None
    assert pushdown.of_polars(pl.col("other") == 1, columns) is None
    assert pushdown.of_polars(pl.col("i").cast(pl.String) == "1", columns) is None


def sql_rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return sorted(found, key=repr)


def test_duckdb_finds_what_it_finds_in_a_table(db: flagstone.Database) -> None:
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    c = db.collection("c")
    c.update({
        n: {
            "i": n % 50 or None,
            "f": math.nan if n % 7 == 0 else n / 4,
            "s": None if n % 11 == 0 else "ab'\"\\\u00e9"[n % 6] * (n % 3),
            "b": n % 3 == 0,
            "t": DAY + datetime.timedelta(days=n % 5),
            "m": {"x": n},
        }
        for n in range(300)
    })
    c.create_index("by i", "$.i")
    connection = flagstone.connect(db)
    table = pa.table(c.find().arrow())
    plain = duckdb.connect()
    plain.register("c", table)
    conditions = [
        "i = 3", "i <> 3", "i > 40 AND s = 'a'", "i > 48 OR i < 2", "i IN (1, 2, 99)",
        "i IS NULL", "s IS NOT NULL", "f > 70", "f < 1.5", "f >= 'nan'::DOUBLE", "f <> 1",
        "s = 'ab'", "s > 'a'", "s = '\"'", "s = '\\'", "s = ''''", "s = '\u00e9\u00e9'", "b", "NOT b",
        "t = '2020-01-02T00:00:00Z'::TIMESTAMPTZ", "m.x > 290", "i BETWEEN 3 AND 4 AND NOT b",
        "(i > 3 AND i < 6) OR s IS NULL", "s LIKE 'a%'", "_key > 290", "i = 3 OR f > 70",
        "s = 'a) or (i == 3'", "f IN (1.5, 2, 99)", "f = 0.25 OR i = 3", "f < 1e-3 AND i = 3",
        "s IN ('a', 'b', '\"', '''', '\\')", "s IN ('a\",\n  \"b', 'aa') AND i < 7",
        "t IN ('2020-01-02T00:00:00Z'::TIMESTAMPTZ, '2020-01-03T00:00:00Z'::TIMESTAMPTZ)",
        "t > '2020-01-03T00:00:00Z'::TIMESTAMPTZ AND f <= 60 AND i IN (1, 5, 9)",
        f"i IN ({', '.join(map(str, range(1, 90, 2)))}) AND b", "f IN ('nan'::DOUBLE, 1)",
    ]
    for condition in conditions:
        for wanted in ("_key", "_key, i, s", "count(*)", "s, count(*)"):
            tail = " GROUP BY s" if wanted.startswith("s,") else ""
            sql = f"SELECT {wanted} FROM c WHERE {condition}{tail}"
            assert sql_rows(connection, sql) == sql_rows(plain, sql), sql


def test_what_duckdb_pushes_down_is_read(db: flagstone.Database) -> None:
    duckdb = pytest.importorskip("duckdb")
    dataset = pytest.importorskip("pyarrow.dataset")
    pa = pytest.importorskip("pyarrow")
    c = db.collection("c")
    c["a"] = {"i": 1, "s": "x", "f": 0.5, "b": True, "t": DAY}
    source = c.find().arrow()
    columns, found = pushdown.Columns(source), []

    class Table(dataset.Dataset):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            pass

        @property
        def schema(self) -> Any:
            return pa.schema(source)

        def scanner(self, filter: Any = None, **more: Any) -> Any:
            found.append(pushdown_pyarrow.of_pyarrow(filter, columns))
            reader = pa.RecordBatchReader.from_stream(source)
            return dataset.Scanner.from_batches(reader, filter=filter, **more)

    connection = duckdb.connect()
    connection.register("c", Table())
    i, s, f, t = '$["i"]', '$["s"]', '$["f"]', '$["t"]'
    time = "'2020-01-01T00:00:00Z'::TIMESTAMPTZ"
    cases: list[tuple[str, Any]] = [
        ("i IN (1, 5, 9)", {i: {"$in": [1, 5, 9]}}),
        ("s IN ('x', 'a\"b', 'c\\d')", {s: {"$in": ["x", 'a"b', "c\\d"]}}),
        ("f IN (0.5, 1e30)", {f: {"$in": [0.5, 1e30]}}),
        ("f < 0.1", {f: {"$lt": 0.1}}),
        (f"t >= {time}", {t: {"$gte": DAY}}),
        ("s = 'a\"b' AND f = 2", {"$and": [{s: {"$eq": 'a"b'}}, {f: {"$eq": 2.0}}]}),
        # One value that looks like two.
        ("s IN ('a\",\n  \"b', 'x')", None),
        # The text leaves some out.
        (f"i IN ({', '.join(map(str, range(0, 200, 2)))})", None),
    ]
    for condition, expected in cases:
        connection.execute(f"SELECT i FROM c WHERE {condition}").fetchall()
        assert found[-1] == expected, condition


def test_the_filters_of_duckdb_are_read(db: flagstone.Database) -> None:
    field = pytest.importorskip("pyarrow.dataset").field
    c = db.collection("c")
    c["a"] = {"i": 1, "s": "x", "f": 0.5, "b": True, "t": DAY}
    columns = pushdown.Columns(c.find().arrow())
    i, s, f, t = '$["i"]', '$["s"]', '$["f"]', '$["t"]'

    def read(expression: Any) -> Any:
        return pushdown_pyarrow.of_pyarrow(expression, columns)

    assert read(field("i") > 5) == {i: {"$gt": 5}}
    assert read((field("i") == 5) & (field("s") == "x")) == {
        "$and": [{i: {"$eq": 5}}, {s: {"$eq": "x"}}]
    }
    assert read((field("i") == 5) | (field("f") == 0.5)) == {
        "$or": [{i: {"$eq": 5}}, {f: {"$eq": 0.5}}]
    }
    assert read((field("i") == 5) & (field("f") <= 1 / 3)) == {
        "$and": [{i: {"$eq": 5}}, {f: {"$lte": 1 / 3}}]
    }
    assert read((field("s") == 'a")\n') & (field("i") == 5)) == {i: {"$eq": 5}}
    assert read((field("s") == 'a")\\') & (field("i") == 5)) == {
        "$and": [{s: {"$eq": 'a")\\'}}, {i: {"$eq": 5}}]
    }
    assert read((field("t") > DAY) & field("t").is_valid()) == {
        "$and": [{t: {"$gt": DAY}}, {t: {"$exists": True}}]
    }
    # What is not understood is left out, and with it what the text may not tell exactly.
    assert read((field("i") == 5) & (field("f") <= 0.5) & field("s").is_null(nan_is_null=True)) == {
        i: {"$eq": 5}
    }
    assert read((field("i") == 5) & field("i").isin([5, 6])) == {i: {"$eq": 5}}
    assert read((field("i") + 1 == 5) & (field("i") == 4)) is None
    assert read(~(field("i") == 4)) is None
    assert read(field("i").is_null()) == {"$or": [{i: None}, {i: {"$exists": False}}]}
    assert read(field("i").is_null(nan_is_null=True) & field("b")) is not None
    assert read(field("i").is_valid() & (field("i") >= -3)) == {
        "$and": [{i: {"$exists": True}}, {i: {"$gte": -3}}]
    }
    c["a"] = {"i > 1) or (s": 1, "i": 1}
    columns = pushdown.Columns(c.find().arrow())
    assert read(field("i") > 5) is None
