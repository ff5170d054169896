"""Columns of documents that a sample has not shown: nothing is lost without a word."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import flagstone
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("polars")
pytest.importorskip("pandas")

LATE = 1500


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    """Of 2000 documents, those from the 1500th on have a field that a sample of 1000 has not."""
    c = db.collection("c")
    c.update({n: {"a": n} if n < LATE else {"a": n, "b": {"x": n}} for n in range(2000)})
    return c


@pytest.mark.parametrize("name", ["to_polars", "to_pandas", "to_pyarrow"])
def test_a_field_that_is_first_seen_late_is_a_column(c: flagstone.Collection, name: str) -> None:
    """It was left out without a word."""
    for query in (c.find(), c.find(sort="a"), c.find(sort="-a", limit=1900)):
        frame = getattr(query, name)()
        names = frame.column_names if name == "to_pyarrow" else list(frame.columns)
        assert names == ["_key", "a", "b"]
    rows = c.find().to_pyarrow().to_pylist()
    assert sum(row["b"] is not None for row in rows) == 2000 - LATE
    assert {"_key": 1700, "a": 1700, "b": {"x": 1700}} in rows


@pytest.mark.parametrize(
    "document",
    [{"a": "text"}, {"a": 1.5}, {"a": {"x": 1}}, {"a": [1], "z": 1}, 7, "text", [1, 2], {7: 1}],
)
def test_whatever_a_late_document_is_it_is_not_lost(
    db: flagstone.Database, document: Any
) -> None:
    c = db.collection("one")
    c.update({n: {"a": n} for n in range(1200)})
    c[5000] = document
    with pytest.raises(Exception, match="document 5000"):
        pa.table(c.arrow(sample=1000))
    for table in (c.find().to_pyarrow(), pa.table(c.arrow(sample=None))):
        assert table.num_rows == 1201
        [row] = [row for row in table.to_pylist() if row["_key"] == 5000]
        assert any(value is not None for name, value in row.items() if name != "_key"), row
    copy = db.collection("copy")
    copy.load_arrow(c, key="_key", nulls="drop")
    found = copy[5000].to_dict()
    if isinstance(document, dict) and 7 not in document:
        assert found == document
    else:
        # Documents that are no maps of names are in a column of that name.
        pairs = {"$pairs": [[7, 1]]}
        assert found == {"document": pairs if isinstance(document, dict) else document}


def test_a_stream_that_cannot_change_names_document_and_field(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    text = "document 1[5-9]..: expected a document without the field b, found .*sample=None"
    source = c.arrow()
    of_duckdb = flagstone.connect(db)

    def by_duckdb() -> Any:
        given = source
        return duckdb.sql("SELECT * FROM given").fetchall() if given else None

    for read in (
        lambda: pa.table(source),
        lambda: pa.table(c),
        lambda: polars.DataFrame(c.find()),
        lambda: list(source.batches()),
        lambda: flagstone.scan(c).collect(),
        by_duckdb,
        lambda: of_duckdb.sql("SELECT * FROM c").fetchall(),
    ):
        with pytest.raises(Exception, match=text):
            read()
    whole: list[Callable[[], Any]] = [
        lambda: pa.table(c.arrow(sample=None)).num_rows,
        lambda: flagstone.scan(c, sample=None).collect().height,
        lambda: len(flagstone.connect(db, sample=None).sql("SELECT * FROM c").fetchall()),
    ]
    assert [read() for read in whole] == [2000] * 3


def test_a_value_that_the_sample_lacks_says_how_it_is_read(db: flagstone.Database) -> None:
    """A frame of five rows failed because of the 2500th, and nothing named the remedy."""
    polars = pytest.importorskip("polars")
    c = db.collection("late")
    c.update({n: {"n": n} for n in range(2600)})
    c[2500] = {"n": "text"}
    assert flagstone.scan(c).head(5).collect().height == 5
    assert flagstone.scan(c.find({"n": {"$gte": 7}}), key=None).head(1200).collect().height == 1200
    assert flagstone.scan(c.find(limit=3)).head(5).collect().height == 3
    assert flagstone.scan(c).head(0).collect().height == 0
    assert flagstone.scan(c).filter(polars.col("n") > 2580).head(2).collect().height == 2
    text = 'document 2500, column n: expected int64, found "text"; sample=None infers'
    for read in (lambda: pa.table(c.arrow()), lambda: flagstone.scan(c).collect()):
        with pytest.raises(Exception, match=text):
            read()
    with pytest.raises(flagstone.InvalidInput, match='found "text"$'):
        list(c.arrow({"n": ("n", "int64")}).batches())


def test_a_source_that_is_loaded_is_asked_for_all_of_its_columns(db: flagstone.Database) -> None:
    """It ended as an error of class Io, in the middle."""
    c, copy = db.collection("late"), db.collection("copy")
    c.update({n: {"n": n} for n in range(1200)})
    c[1100] = {"n": "text", "more": 1}
    report = copy.load_arrow(c.arrow(), key="_key", nulls="drop", keep_key=False)
    assert report["documents"] == 1200 and copy[1100] == {"n": "text", "more": 1}
    typed = c.arrow({"k": "$key", "n": ("n", "int64")})
    with pytest.raises(flagstone.InvalidInput, match="document 1100, column n: expected int64"):
        copy.load_arrow(typed, key="k")


def test_who_names_columns_gets_these(db: flagstone.Database, c: flagstone.Collection) -> None:
    polars = pytest.importorskip("polars")
    assert c.find().to_polars({"a": "$.a"}).columns == ["a"]
    assert c.find(columns={"a": "$.a"}).to_polars().columns == ["a"]
    assert c.arrow().select(["a"]).to_polars().columns == ["a"]
    assert flagstone.scan(c).select(polars.col("a").sum()).collect().item() == 1999 * 1000
    assert flagstone.connect(db).sql("SELECT sum(a) FROM c").fetchall() == [(1999000,)]
    # Of all columns in another order, none is left out.
    assert c.arrow().select(["a", "_key"]).to_polars().columns == ["a", "_key", "b"]
    assert c.find({"a": {"$lt": 1400}}).to_polars().columns == ["_key", "a"]
    assert c.find(fields=["a"]).to_polars().columns == ["_key", "a"]


def test_an_index_of_all_columns_does_not_hide_others(c: flagstone.Collection) -> None:
    c.create_index("by_a", "a")
    assert c.find().to_polars().columns == ["_key", "a", "b"]
    assert c.find({"a": {"$gte": 0}}, sort="a").to_polars().columns == ["_key", "a", "b"]
    source = c.arrow().select(["a"])
    assert "no document is read" in source.explain() and len(source.to_polars()) == 2000


def test_a_field_of_a_map_that_is_first_seen_late_is_one_of_the_struct(
    db: flagstone.Database,
) -> None:
    """It was an error that a second look at all documents heals."""
    c = db.collection("maps")
    c.update({n: {"m": {"x": n}, "l": [{"x": n}]} for n in range(1200)})
    c["late"] = {"m": {"x": 1, "y": "new"}, "l": [{"x": 1}, {"z": True}]}
    frame = c.find().to_polars({"m": "$.m", "l": "$.l"})
    assert frame["m"].struct.fields == ["x", "y"]
    with pytest.raises(Exception, match='document "late", column m: expected a struct without'):
        pa.table(c.arrow({"m": "$.m"}))
    # A type that was given stays.
    with pytest.raises(Exception, match='document "late", column m: expected a struct without'):
        c.find().to_polars({"m": ("$.m", "struct(x: int64)")})


def test_a_late_value_of_another_type_widens_its_column(db: flagstone.Database) -> None:
    c = db.collection("types")
    c.update({n: {"v": n, "w": n} for n in range(1200)})
    c["late"] = {"v": 0.5, "w": "text"}
    table = c.find().to_pyarrow()
    assert (str(table.schema.field("v").type), table.schema.field("w").type) == (
        "double", pa.json_()
    )
    # With on_mismatch="null" the sample decides what is null, and no field is left out.
    c["more"] = {"v": 1, "x": True}
    table = c.find().to_pyarrow(on_mismatch="null")
    assert table.column_names == ["_key", "v", "w", "x"]
    assert (table.schema.field("v").type, table.schema.field("w").type) == (pa.int64(), pa.int64())
    assert (table["v"].null_count, table["w"].null_count, table["x"].null_count) == (1, 2, 1201)


def test_a_late_field_may_have_the_name_of_the_column_of_keys(db: flagstone.Database) -> None:
    c = db.collection("keys")
    c.update({n: {"a": n} for n in range(1200)})
    c["late"] = {"a": 1, "_key": "field"}
    frame = c.find().to_polars()
    assert sorted(frame.columns) == ["_key", "_key_1", "a"]
    assert frame["_key"].drop_nulls().to_list() == ["field"]
    with pytest.raises(flagstone.InvalidInput, match="give the column of the keys another name"):
        c.find().to_polars(key="a")
    # What was a column of keys does not become one of a field.
    c["last"] = {"a": "text", "more": 1}
    c.update({n: {"a": n, "w": n} for n in range(1200)})
    with pytest.raises(flagstone.InvalidInput, match="give the column of the keys another name"):
        c.arrow(sample=10).select(["_key", "a"]).to_polars()


def test_a_field_written_between_the_sample_and_the_stream_is_not_lost(
    db: flagstone.Database,
) -> None:
    c = db.collection("few")
    c.update({n: {"a": n} for n in range(10)})
    source = c.arrow(sample=None)
    c[10] = {"a": 10, "b": 1}
    with pytest.raises(Exception, match="document 10: expected a document without the field b"):
        pa.table(source)
    assert source.to_polars().columns == ["_key", "a", "b"]


def test_what_is_written_after_the_columns_of_nothing_is_not_lost(
    db: flagstone.Database,
) -> None:
    c = db.collection("nothing")
    source, sql = c.arrow(), flagstone.connect(db, tables={"nothing": "nothing"})
    assert pa.table(source).num_rows == 0
    c.update({n: {"a": n} for n in range(3)})
    with pytest.raises(Exception, match="expected a document without the field a"):
        pa.table(source)
    assert sorted(source.to_polars().columns) == ["_key", "a"]
    assert c.find().to_polars(sample=0).columns == ["_key", "a"]
    # Keys are counted without a look at the fields.
    assert sql.sql("SELECT count(*) FROM nothing").fetchall() == [(3,)]


# Marks of UUIDs and JSON --------------------------------------------------------------------------


ID = uuid.UUID(int=5)


@pytest.fixture
def marked(db: flagstone.Database) -> flagstone.Collection:
    c = db.collection("marked")
    c[1] = {"u": ID, "l": [ID], "s": {"u": ID, "j": 1}}
    c[2] = {"j": {"a": 1, "b": [None, 1.5]}, "l": [], "s": {"j": "text"}}
    c[3] = {"j": [1], "s": {"j": [True]}}
    return c


def test_uuids_and_json_come_back(db: flagstone.Database, marked: flagstone.Collection) -> None:
    """The streams of Python had no marks: UUIDs came back as bytes, and maps as text."""
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    assert pandas is not None
    documents = {key: doc.to_dict() for key, doc in marked.items()}
    source = marked.arrow()
    table = pa.table(source)
    for given in (source, marked, marked.find(), table, table.to_reader(), [*source.batches()][0]):
        copy = db.collection("copy")
        copy.clear()
        copy.load_arrow(given, key="_key", nulls="drop")
        assert {key: doc.to_dict() for key, doc in copy.items()} == documents
    # Each package keeps what it has a type for.
    copy.clear()
    connection = duckdb.connect(config={"arrow_lossless_conversion": True})
    copy.load_arrow(connection.sql("SELECT * FROM source"), key="_key", nulls="drop")
    assert copy[1]["u"] == ID and copy[2].to_dict()["j"] == documents[2]["j"]
    copy.clear()
    copy.load_arrow(polars.DataFrame(source), key="_key", nulls="drop")
    assert copy[3].to_dict()["j"] == [1] and copy[1]["u"] == ID.bytes


def test_the_types_of_marked_columns(db: flagstone.Database, marked: flagstone.Collection) -> None:
    polars = pytest.importorskip("polars")
    table = marked.find().to_pyarrow().sort_by("_key")
    assert table.schema.field("u").type == pa.uuid() and table.schema.field("j").type == pa.json_()
    assert table["u"].to_pylist() == [ID, None, None]
    assert ID in marked.find().to_pandas()["u"].tolist()
    # polars works on JSON as text.
    frame = marked.find().to_polars().sort("_key")
    assert frame["j"].to_list() == [None, '{"a":1,"b":[null,1.5]}', "[1]"]
    assert frame.filter(polars.col("j") == "[1]").height == 1
    lazy = flagstone.scan(marked).filter(polars.col("j") == "[1]")
    assert lazy.select("_key").collect().rows() == [(3,)]
    sql = flagstone.connect(db)
    assert sql.sql("SELECT typeof(u), typeof(j) FROM marked LIMIT 1").fetchall() == [("UUID", "JSON")]
    for condition, found in (
        (f"u = '{ID}'", [(1,)]), ("j = '[1]'", [(3,)]), ("j IS NOT NULL", [(2,), (3,)]),
        ("u IS NOT NULL AND _key < 2", [(1,)]), ("json_extract(j, '$.a') = 1", [(2,)]),
    ):
        query = f"SELECT _key FROM marked WHERE {condition} ORDER BY _key"
        assert sql.sql(query).fetchall() == found


class Marked:
    """A table of one column with the mark of an extension type."""

    def __init__(self, array: Any, mark: str) -> None:
        field = pa.field("m", array.type, metadata={"ARROW:extension:name": mark})
        ids = pa.array(range(len(array)))
        # The schema is made here, so that pyarrow knows nothing of the mark.
        self.batch = pa.RecordBatch.from_arrays([ids, array], schema=pa.schema([("id", ids.type), field]))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_stream__()


@pytest.mark.parametrize(
    ("array", "mark"),
    [
        (pa.array([1, 2]), "pandas.period"),
        (pa.array([b"a"]), "geoarrow.wkb"),
        (pa.array([1], pa.int8()), "arrow.bool8"),
        (pa.array(["a"]), "arrow.uuid"),
        (pa.array([b"a"]), "arrow.json"),
        (pa.array([b"a" * 15], pa.binary(15)), "arrow.uuid"),
        (pa.array([1]), "arrow.json"),
        (pa.array([[1]]), "arrow.fixed_shape_tensor"),
        (pa.array([{"a": 1}]), "arrow.parquet.variant"),
    ],
)
def test_unknown_extension_types_are_refused(
    db: flagstone.Database, array: Any, mark: str
) -> None:
    """Their values were taken for those of their storage: a month of pandas became a number."""
    c = db.collection("e")
    text = f"column m: the extension type {mark} of .* is not supported in a document; cast it"
    with pytest.raises(flagstone.InvalidInput, match=text):
        c.load_arrow(Marked(array, mark))
    inside = pa.field("x", array.type, metadata={"ARROW:extension:name": mark})
    for kind in (pa.list_(inside), pa.struct([inside]), pa.map_(pa.utf8(), inside)):
        with pytest.raises(flagstone.InvalidInput, match=f"the extension type {mark} of"):
            c.load_arrow(pa.table({"id": pa.array([1]), "m": pa.nulls(1, kind)}))
    assert len(c) == 0
    c.load_arrow(Marked(array, ""))


def test_periods_and_intervals_of_pandas_are_refused(db: flagstone.Database) -> None:
    pandas = pytest.importorskip("pandas")
    c = db.collection("e")
    periods = pandas.period_range("2020-01", periods=2, freq="M")
    intervals = pandas.interval_range(0, 2)
    for column in (periods, intervals):
        frame = pandas.DataFrame({"id": [1, 2], "m": column})
        with pytest.raises(flagstone.InvalidInput, match="column m: the extension type pandas"):
            c.load_arrow(frame)
    assert len(c) == 0
    frame = pandas.DataFrame({"id": [1, 2], "m": periods.astype(str)})
    c.load_arrow(frame)
    assert c[1]["m"] == "2020-01"


def test_marks_of_dictionaries_and_runs_are_those_of_their_values(db: flagstone.Database) -> None:
    c = db.collection("e")
    json = pa.array(["[1]", "{}"]).dictionary_encode()
    c.load_arrow(Marked(json, "arrow.json"))
    assert [doc["m"] for doc in c.values()] == [[1], {}]
    ids = pa.array([ID.bytes] * 2, pa.binary(16)).dictionary_encode()
    c.load_arrow(Marked(ids, "arrow.uuid"))
    assert c[1]["m"] == ID
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["[2]"]))
    c.load_arrow(Marked(runs, "arrow.json"))
    assert c[1]["m"] == [2]


# Integers beside null in pandas ------------------------------------------------------------------


def test_integers_beside_null_are_exact_in_pandas(db: flagstone.Database) -> None:
    """pandas makes floats of them, which are others beyond 2^53."""
    pandas = pytest.importorskip("pandas")
    large = 9007199254740993
    c = db.collection("n")
    c[1] = {"n": large, "l": [large, None], "s": {"n": large}, "d": {"l": [{"n": large}]}, "f": 0.5}
    c[2] = {"s": {"n": None}, "all": 1}
    c[3] = {"n": -large, "s": None, "all": 2, "d": {"l": [{"n": None}, None]}}
    frame = c.find().to_pandas().sort_values("_key", ignore_index=True)
    assert list(frame.columns) == ["_key", "n", "l", "s", "d", "f", "all"]
    assert frame["n"].dtype == pandas.Int64Dtype() and frame["all"].dtype == pandas.Int64Dtype()
    assert frame["_key"].dtype == "int64" and frame["f"].dtype == "float64"
    assert frame["n"].tolist()[0] == large and frame["n"].tolist()[2] == -large
    assert frame["n"].isna().tolist() == [False, True, False]
    assert frame["n"].sum() == 0 and frame["all"].sum() == 3
    assert frame["l"][0] == [large, None]
    assert frame["s"][0] == {"n": large} and frame["d"][0] == {"l": [{"n": large}]}
    assert set(c.arrow({"n": "$.n"}).to_pandas()["n"].dropna()) == {large, -large}
    c.clear()
    c.update({n: {"n": n, "t": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)} for n in range(3)})
    frame = c.find(sort="n").to_pandas()
    assert frame["n"].dtype == "int64" and str(frame["t"].dtype).startswith("datetime64")
    assert len(db.collection("empty").find().to_pandas()) == 0
