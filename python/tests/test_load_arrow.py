"""Arrow streams as documents."""

from __future__ import annotations

import datetime
import math
import signal
import struct
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import flagstone
import pytest
from flagstone import _flagstone
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
UTC = datetime.timezone.utc
DAY = datetime.datetime(2020, 1, 2, tzinfo=UTC)
TIME = datetime.datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c", decimal="always")


def table(**columns: Any) -> Any:
    return pa.table({name: pa.array(*array) for name, array in columns.items()})


ARRAYS: dict[str, tuple[Any, list[Any]]] = {
    "null": (pa.nulls(2), [None, None]),
    "bool": (pa.array([True, None]), [True, None]),
    **{
        f"int{bits}": (
            pa.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1], getattr(pa, f"int{bits}")()),
            [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1],
        )
        for bits in (8, 16, 32, 64)
    },
    **{
        f"uint{bits}": (
            pa.array([0, 2**bits - 1], getattr(pa, f"uint{bits}")()),
            [0, 2**bits - 1],
        )
        for bits in (8, 16, 32, 64)
    },
    "float32": (pa.array([0.5, None], pa.float32()), [0.5, None]),
    "float32 as it is": (pa.array([0.1, 3e38], pa.float32()), [0.10000000149011612, None]),
    "float64": (pa.array([0.1, -1e300]), [0.1, -1e300]),
    "decimal32": (pa.array([Decimal("-1.10"), None], pa.decimal32(5, 2)), [Decimal("-1.10"), None]),
    "decimal64": (pa.array([Decimal("7.000")] * 2, pa.decimal64(9, 3)), [Decimal("7.000")] * 2),
    "decimal128": (
        pa.array([Decimal("12345678901234567890.10"), Decimal("-0.05")], pa.decimal128(22, 2)),
        [Decimal("12345678901234567890.10"), Decimal("-0.05")],
    ),
    "decimal256": (
        pa.array([Decimal(10**60), Decimal(0)], pa.decimal256(70, 0)),
        [10**60, 0],
    ),
    "decimal of tens": (pa.array([Decimal(1200), None], pa.decimal128(5, -2)), [1200, None]),
    "string": (pa.array(["\u00e9", ""]), ["\u00e9", ""]),
    "large string": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "string view": (pa.array(["a", "b" * 50], pa.string_view()), ["a", "b" * 50]),
    "binary": (pa.array([b"\x00\xff", b""]), [b"\x00\xff", b""]),
    "large binary": (pa.array([b"a", None], pa.large_binary()), [b"a", None]),
    "binary view": (pa.array([b"a", b"b" * 50], pa.binary_view()), [b"a", b"b" * 50]),
    "fixed binary": (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
    "uuid": (
        pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
        [uuid.UUID(int=1), None],
    ),
    "json": (pa.array(['{"a":1.10}', None], pa.json_()), [{"a": Decimal("1.10")}, None]),
    "date32": (pa.array([DAY.date(), None]), [DAY, None]),
    "date64": (pa.array([DAY.date(), None], pa.date64()), [DAY, None]),
    **{
        f"timestamp {unit}": (
            pa.array([DAY, None], pa.timestamp(unit, "Europe/Oslo")),
            [DAY, None],
        )
        for unit in ("s", "ms", "us", "ns")
    },
    "microseconds": (pa.array([TIME] * 2, pa.timestamp("us", "UTC")), [TIME] * 2),
    "list": (pa.array([[1, None], None]), [[1, None], None]),
    "large list": (pa.array([[], ["a"]], pa.large_list(pa.string())), [[], ["a"]]),
    "list view": (pa.array([[1, 2], [3]], pa.list_view(pa.int8())), [[1, 2], [3]]),
    "large list view": (pa.array([[1], None], pa.large_list_view(pa.int8())), [[1], None]),
    "fixed list": (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), [[1, 2], [3, 4]]),
    "struct": (
        pa.array([{"a": 1, "b": {"c": "x"}}, None]),
        [{"a": 1, "b": {"c": "x"}}, None],
    ),
    "map": (
        pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64())),
        [{"a": 1, "b": None}, {}],
    ),
    "map of numbers": (pa.array([[(1, "a")], None], pa.map_(pa.int8(), pa.string())),
                       [{1: "a"}, None]),
    "dictionary": (pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "null in a dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint8()), pa.array(["a", None])),
        ["a", None],
    ),
    "runs": (pa.RunEndEncodedArray.from_arrays([2], ["a"]), ["a", "a"]),
    "dense union": (
        pa.UnionArray.from_dense(
            pa.array([0, 1], pa.int8()),
            pa.array([0, 0], pa.int32()),
            [pa.array([7]), pa.array(["a"])],
        ),
        [7, "a"],
    ),
    "sparse union": (
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([7, 8]), pa.array(["a", "b"])]
        ),
        [7, "b"],
    ),
}
ARRAYS["float32 as it is"][1][1] = float(ARRAYS["float32 as it is"][0][1].as_py())


@pytest.mark.parametrize("name", ARRAYS)
def test_each_arrow_type_is_exact(c: flagstone.Collection, name: str) -> None:
    array, expected = ARRAYS[name]
    loaded = c.load_arrow(pa.table({"id": [0, 1], "v": array}))
    assert loaded == {"documents": 2, "existing": 0}
    found = [c.get(n, path="$.v") for n in (0, 1)]
    found = [value.to_dict() if isinstance(value, flagstone.Document) else value for value in found]
    assert found == expected
    assert [str(value) for value in found] == [str(value) for value in expected]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_slice_of_each_arrow_type_is_exact(c: flagstone.Collection, name: str) -> None:
    array, expected = ARRAYS[name]
    inner = pa.StructArray.from_arrays([array], ["w"])
    outer = pa.StructArray.from_arrays([inner], ["v"])
    rows = pa.concat_tables([pa.table({"id": [0, 1], "v": array, "x": outer})] * 2).combine_chunks()
    c.load_arrow(rows.slice(3))
    assert str(c[1].to_dict()["v"]) == str(expected[1])
    assert str(c[1].to_dict()["x"]["v"]["w"]) == str(expected[1])


def test_floats_that_are_no_numbers_are_kept(c: flagstone.Collection) -> None:
    c.load_arrow(table(id=([1, 2],), v=([math.nan, -math.inf],)))
    assert math.isnan(c[1]["v"]) and c[2]["v"] == -math.inf


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([datetime.time(1)]), "column v: Time64.* is not supported in a document"),
        (pa.array([datetime.timedelta(1)]), "column v: Duration.* is not supported"),
        (pa.array([[datetime.time(1)]]), "column v: Time64.* is not supported"),
        (pa.array([datetime.datetime(2020, 1, 1)]), "column v: Timestamp.* has no time zone"),
        (pa.array([{"x": datetime.datetime(2020, 1, 1)}]), "column v: column x: .* no time zone"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "row 0, column v: the time 1 ns is finer"),
        (pa.array([2**60], pa.timestamp("s", "UTC")), "row 0, column v: .* too far from 1970"),
        (pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.timestamp("ns", "UTC"))]))),
         r"row 0, column v\[0\]\.x: the time 1 ns"),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8())), "two equal keys"),
        (pa.array(["{"], pa.json_()), "row 0, column v: "),
    ],
)
def test_what_has_no_form_is_refused(c: flagstone.Collection, array: Any, text: str) -> None:
    with pytest.raises(flagstone.InvalidInput, match=text):
        c.load_arrow(pa.table({"id": [0], "v": array}))
    assert len(c) == 0


def test_a_timestamp_without_a_zone_is_utc_if_asked(c: flagstone.Collection) -> None:
    c.load_arrow(table(id=([1],), v=([DAY.replace(tzinfo=None)],)), naive="utc")
    assert c[1]["v"] == DAY


def test_the_key_is_a_column_or_a_path(c: flagstone.Collection) -> None:
    rows = [{"id": "a", "x": {"id": 1}}, {"id": "b", "x": {"id": 2}}]
    c.load_arrow(pa.Table.from_pylist(rows), key="id", keep_key=False)
    assert c["a"].to_dict() == {"x": {"id": 1}}
    c.load_arrow(pa.Table.from_pylist(rows), key="$.x.id")
    assert c[2].to_dict() == rows[1]
    with pytest.raises(flagstone.InvalidInput, match="no column of the key \"y\" among id, x"):
        c.load_arrow(pa.Table.from_pylist(rows), key="y")
    with pytest.raises(flagstone.InvalidInput, match="^1 document .*row 1.*column id: expected"):
        c.load_arrow(table(id=([5, None],)))
    assert 5 in c


def test_the_modes(c: flagstone.Collection) -> None:
    c["a"] = {"n": 1, "old": True}
    rows = pa.Table.from_pylist([{"id": "a", "n": 2}, {"id": "b", "n": 3}, {"id": "b", "n": 4}])
    assert c.load_arrow(rows, mode="insert") == {"documents": 1, "existing": 2}
    assert (c["a"]["n"], c["b"]["n"]) == (1, 3)
    assert c.load_arrow(rows, mode="merge")["documents"] == 3
    assert c["a"].to_dict() == {"n": 2, "old": True, "id": "a"}
    assert c.load_arrow(rows)["documents"] == 3
    assert c["a"].to_dict() == {"id": "a", "n": 2} and c["b"]["n"] == 4
    nothing = pa.Table.from_pylist([{"id": "a", "n": None, "m": {"x": None}}])
    c.load_arrow(nothing, nulls="drop")
    assert c["a"].to_dict() == {"id": "a", "m": {}}


@pytest.mark.parametrize(
    "arguments", [{"mode": "replace"}, {"nulls": "none"}, {"naive": "local"}]
)
def test_wrong_arguments_are_refused(c: flagstone.Collection, arguments: dict[str, Any]) -> None:
    with pytest.raises(flagstone.InvalidInput, match="expected one of"):
        c.load_arrow(table(id=([1],)), **arguments)


def test_what_is_no_stream_is_refused(db: flagstone.Database, c: flagstone.Collection) -> None:
    with pytest.raises(TypeError, match="LazyFrame; collect.. it first"):
        c.load_arrow(pytest.importorskip("polars").LazyFrame({"id": [1]}))
    with pytest.raises(TypeError, match="expected an Arrow stream.* found"):
        c.load_arrow([{"id": 1}])  # type: ignore[arg-type]

    class Wrong:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return 5

    with pytest.raises(TypeError):
        c.load_arrow(Wrong())

    class Used:
        def __init__(self) -> None:
            self.capsule = table(id=([1],)).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.capsule

    used = Used()
    assert c.load_arrow(used)["documents"] == 1
    with pytest.raises(flagstone.Io, match="no schema"):
        c.load_arrow(used)
    with pytest.raises(flagstone.InvalidInput, match="load_arrow"):
        db.batch()[c].load_arrow(table(id=([1],)))


def test_a_stream_that_fails_leaves_what_came_before(c: flagstone.Collection) -> None:
    schema = pa.schema([("id", pa.int64())])

    def batches() -> Iterator[Any]:
        for n in range(3):
            yield pa.record_batch({"id": list(range(n * 100, n * 100 + 100))}, schema=schema)
        raise OSError("the cable was cut")

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(flagstone.Io, match="300 documents.* after 300 rows.*cable was cut"):
        c.load_arrow(reader)
    assert len(c) == 300
    c[1000] = {"still": "usable"}


def test_a_value_of_a_unique_index_names_its_row(c: flagstone.Collection) -> None:
    c.create_index("one", "$.u", unique=True)
    rows = [{"id": n, "u": n if n != 70 else 5} for n in range(100)]
    with pytest.raises(flagstone.Duplicate, match="^70 documents.*row 70"):
        c.load_arrow(pa.Table.from_pylist(rows))
    assert sorted(c) == list(range(70))


def test_progress_is_shown(
    c: flagstone.Collection, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    c.load_arrow(rows, progress=True)
    assert capsys.readouterr().err.startswith("3 documents [00:00, ")
    c.load_arrow(rows, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress: expected True for a bar, or a function"):
        c.load_arrow(rows, progress=5)  # type: ignore[arg-type]


def test_progress_is_told_and_may_end_the_load(c: flagstone.Collection) -> None:
    rows = table(id=(list(range(60_000)),), v=(["x" * 100] * 60_000,))
    told: list[int] = []
    c.load_arrow(rows, progress=told.append)
    assert told == sorted(told) and told[-1] == 60_000 and len(set(told)) > 3
    c.clear()

    def stop(documents: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        c.load_arrow(rows, progress=stop)
    assert 0 < len(c) < 60_000


def test_memory_does_not_depend_on_the_stream(c: flagstone.Collection) -> None:
    alive = 0
    most = 0
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])

    def batches() -> Iterator[Any]:
        nonlocal alive, most
        for n in range(50):
            before = pa.total_allocated_bytes()
            most = max(most, before)
            ids = list(range(n * 1000, n * 1000 + 1000))
            yield pa.record_batch({"id": ids, "v": ["x" * 1000] * 1000}, schema=schema)

    c.load_arrow(pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(c) == 50_000 and most < 10 * 1000 * 1100


def test_what_was_exported_is_loaded_again(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    leaf = st.none() | st.integers(-(2**63), 2**63 - 1)
    document = st.fixed_dictionaries({
        "i": leaf,
        "t": st.none() | st.text(),
        "l": st.none() | st.lists(leaf, max_size=3),
        "s": st.none() | st.fixed_dictionaries({"a": leaf, "b": st.none() | st.booleans()}),
    })
    copy = db.collection("copy")

    @given(st.dictionaries(st.text(max_size=5), document, min_size=1, max_size=10))
    def check(documents: dict[str, Any]) -> None:
        c.clear()
        copy.clear()
        c.update(documents)
        copy.load_arrow(c.find().arrow(), key="_key", keep_key=False)
        assert {key: doc.to_dict() for key, doc in copy.items()} == documents

    check()


def test_polars_pandas_and_duckdb_are_loaded(c: flagstone.Collection) -> None:
    polars = pytest.importorskip("polars")
    rows = [{"id": n, "s": "ab"[n % 2], "l": [n], "m": {"x": n}, "at": TIME} for n in range(1000)]
    frame = polars.DataFrame(rows)
    c.load_arrow(frame)
    assert [c[n].to_dict() for n in range(1000)] == rows
    c.clear()
    # polars gives nulls a buffer, which the interface does not have.
    nulls = polars.DataFrame({"id": [1], "n": [None], "l": [[None]], "s": [{"n": None}]})
    c.load_arrow(nulls)
    assert c[1].to_dict() == {"id": 1, "n": None, "l": [None], "s": {"n": None}}
    c.clear()
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql(
        "SELECT range AS id, 'x' || range AS s, range::HUGEINT AS h, 1.10::DECIMAL(5,2) AS d, "
        "[range] AS l, {'x': range} AS m, MAP {'k': range} AS n, DATE '2020-01-02' AS at, "
        "'{\"a\": 1}'::JSON AS j FROM range(5000)"
    )
    assert c.load_arrow(relation)["documents"] == 5000
    found = c[7].to_dict()
    assert (found["s"], found["l"], found["m"], found["n"]) == ("x7", [7], {"x": 7}, {"k": 7})
    assert (str(found["d"]), found["h"], found["at"]) == ("1.10", 7, DAY)
    pandas = pytest.importorskip("pandas")
    c.clear()
    c.load_arrow(pandas.DataFrame({"id": [1, 2], "x": [0.5, None]}))
    assert c[1].to_dict() == {"id": 1, "x": 0.5}


class Wrapped:
    """A stream of which only the C interface is seen."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader.__arrow_c_stream__()


def failing(error: BaseException | None) -> Any:
    """A reader whose producer raises after two batches, or gets a real SIGINT."""
    schema = pa.schema([("id", pa.int64())])

    def batches() -> Iterator[Any]:
        for n in range(2):
            yield pa.record_batch({"id": [n]}, schema=schema)
        if error is not None:
            raise error
        signal.raise_signal(signal.SIGINT)

    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.parametrize("wrap", [lambda reader: reader, Wrapped])
def test_ctrl_c_of_a_producer_stays_one(wrap: Any, c: flagstone.Collection) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for error in (KeyboardInterrupt(), None):
            with pytest.raises(KeyboardInterrupt):
                c.load_arrow(wrap(failing(error)))
            assert list(c) == [0, 1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_exception_of_a_producer_is_a_cause(c: flagstone.Collection) -> None:
    cause = ValueError("of two\nlines")
    with pytest.raises(flagstone.Io) as raised:
        c.load_arrow(failing(cause))
    text = "2 documents were loaded, and then: the Arrow stream failed after 2 rows: ValueError: "
    assert str(raised.value) == text + "of two\nlines" and raised.value.__cause__ is cause
    with pytest.raises(flagstone.Io) as raised:
        c.load_arrow(Wrapped(failing(cause)))
    assert str(raised.value) == text + "of two\nlines" and raised.value.__cause__ is None
    with pytest.raises(SystemExit):
        c.load_arrow(failing(SystemExit(3)))


def test_ctrl_c_of_a_query_of_ours_stays_one(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update((n, {"n": n}) for n in range(2000))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for reader in (c.find(), c.find().arrow({"n": "$.n"}, batch_rows=100)):
            _flagstone._interrupt_at(2)
            with pytest.raises(KeyboardInterrupt):
                while True:
                    db.collection("copy").load_arrow(reader, key="n")
            _flagstone._interrupt_at(0)
    finally:
        signal.signal(signal.SIGINT, before)
        _flagstone._interrupt_at(0)


def test_a_date_with_a_time_of_day_is_refused(c: flagstone.Collection) -> None:
    """Arrow has milliseconds in a `date64`, of which days must be whole."""
    days = pa.py_buffer(struct.pack("<2q", 86_400_000, -86_400_005))
    dates = pa.Array.from_buffers(pa.date64(), 2, [None, days])
    with pytest.raises(flagstone.InvalidInput, match="row 1, column d: the date64 -86400005 ms"):
        c.load_arrow(pa.table({"id": [1, 2], "d": dates}))


def test_a_frame_of_polars_with_a_zero_in_a_name_is_refused(c: flagstone.Collection) -> None:
    """Its exporter ended the process."""
    polars = pytest.importorskip("polars")
    for frame in (
        polars.DataFrame({"id": [1], "a\0b": [2]}),
        polars.DataFrame({"id": [1], "a": [{"x\0": 2}]}),
        polars.DataFrame({"id": [1], "a": [[[{"x\0": 2}]]]}),
        polars.Series("a", [{"id": 1, "x\0": 2}]),
    ):
        with pytest.raises(flagstone.InvalidInput, match="a name has the character U.0000"):
            c.load_arrow(frame)
    assert len(c) == 0


def test_a_nul_in_a_name_is_refused_however_it_comes(c: flagstone.Collection) -> None:
    """Arrow's names end there: "a\\0b" came as "a"."""
    pd = pytest.importorskip("pandas")
    array = pa.array([{"id": 1, "a\0b": 2}])
    for source in [
        pd.DataFrame({"id": [1], "a\0b": [2]}),
        pd.DataFrame({"id": [1], "s": [{"a\0b": 2}]}),
        array,
        pa.chunked_array([array]),
    ]:
        with pytest.raises(flagstone.InvalidInput, match=r"U\+0000"):
            c.load_arrow(source)
    assert len(c) == 0
    c.load_arrow(pd.DataFrame({"id": [1], "ab": [2]}))
    c.load_arrow(pa.array([{"id": 2, "ab": 3}]))
    assert [d["ab"] for d in c.values()] == [2, 3]


def test_a_blocked_import_of_pandas_is_no_obstacle(
    c: flagstone.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry in `sys.modules` is None then, which has no frames."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    c.load_arrow(pa.table({"id": [1]}))
    assert len(c) == 1
