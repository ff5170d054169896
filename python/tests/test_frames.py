"""Collections in pyarrow, polars, pandas and DuckDB: what all of them read, and as what."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import flagstone
import pytest

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")
UTC = datetime.timezone.utc
AT = datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)

# More digits than polars and DuckDB have in decimals.
WIDE = 12345678901234567890123456789012345678901


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def by_all(db: flagstone.Database, column: str, options: dict[str, Any] | None = None) -> list[Any]:
    """Returns the values of a column of the collection `c` as each package has them."""
    source = db.collection("c").find().arrow(**(options or {}))
    rows = flagstone.connect(db, **(options or {})).execute(f'SELECT "{column}" FROM c').fetchall()
    return [
        pa.table(source)[column].to_pylist(),
        pl.DataFrame(source)[column].to_list(),
        flagstone.scan(db.collection("c"), **(options or {})).collect()[column].to_list(),
        [_plain(value) for value in source.to_pandas()[column]],
        [row[0] for row in rows],
    ]


def test_all_packages_read_each_type_of_column(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    document = {
        "bool": True,
        "int": -5,
        "float": 0.5,
        "text": "\u00e9",
        "bytes": b"\x00\xff",
        "time": AT,
        "list": [1, None, 3],
        "map": {"a": 1, "b": {"c": "d"}},
        "large": Decimal(2**70),
        "price": Decimal("12345678901234567.10"),
        "lists": [{"x": [1]}, {"x": [], "y": "z"}],
        "null": None,
    }
    wanted = {**document, "lists": [{"x": [1], "y": None}, {"x": [], "y": "z"}]}
    c["k"] = {**document, "uuid": uuid.UUID(int=7)}
    for name, value in wanted.items():
        for number, found in enumerate(by_all(db, name)):
            assert found == [value], (name, number)
    # polars has no UUIDs, and DuckDB and pandas have those of Python.
    found = [value[0] for value in by_all(db, "uuid")]
    assert all(value in (uuid.UUID(int=7), uuid.UUID(int=7).bytes) for value in found)
    assert uuid.UUID(int=7) in found


def _plain(value: Any) -> Any:
    """Returns a value of pandas without arrays of numpy, and without NaN, which is null there."""
    if hasattr(value, "shape"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def test_a_collection_is_a_table_itself(db: flagstone.Database, c: flagstone.Collection) -> None:
    c.update({n: {"n": n, "s": "x"} for n in range(5)})
    # polars takes a mapping for one of columns.
    for rows in (pa.table(c).num_rows, len(pl.DataFrame(c.arrow())), len(c.arrow().to_pandas())):
        assert rows == 5
    assert c.arrow({"n": "$.n"}).types == {"n": "int64"}
    assert duckdb.sql("SELECT sum(n) FROM c").fetchall() == [(10,)]
    with db.snapshot() as snapshot:
        c[9] = {"n": 9}
        assert (pa.table(snapshot[c]).num_rows, pa.table(c).num_rows) == (5, 6)
    copy = db.collection("copy")
    assert copy.load_arrow(c, key="_key")["documents"] == 6 and copy[9]["n"] == 9


def test_a_query_carries_its_columns(c: flagstone.Collection) -> None:
    c.update({n: {"n": n, "s": "x"} for n in range(5)})
    find = c.find({"n": {"$gt": 2}}, columns={"k": "$key", "n": ("$.n", "float64")}, sort="-n")
    assert find.arrow().types == {"k": "int64", "n": "float64"}
    assert pl.DataFrame(find).rows() == [(4, 4.0), (3, 3.0)]
    assert find.arrow(["$.s"]).types == {"s": "text"}
    assert flagstone.scan(find).filter(pl.col("n") > 3).collect().rows() == [(4, 4.0)]
    with pytest.raises(flagstone.InvalidInput, match="names and indexes alone"):
        c.find(columns={"n": "$.n[*]"})


def test_numbers_of_many_digits_are_text_that_all_packages_read(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({"a": {"n": WIDE, "in": {"n": [-WIDE]}, "x": 1}, "b": {"n": 1, "x": 2}})
    types = c.find().arrow().types
    assert (types["n"], types["in"]) == ("number", "struct(n: list(number))")
    assert by_all(db, "n") == [[str(WIDE), "1"]] * 5
    assert flagstone.scan(c).select("x").collect()["x"].to_list() == [1, 2]
    # As many digits as all of them have.
    c.clear()
    c["a"] = {"n": 10**38 - 1}
    assert c.find().arrow().types["n"] == "decimal(38,0)"
    assert by_all(db, "n") == [[Decimal(10**38 - 1)]] * 5


def test_wide_decimals_that_are_asked_for_are_for_pyarrow_and_pandas(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = {"n": WIDE, "l": [WIDE]}
    for path, kind, value in (
        ("$.n", "decimal(41,0)", Decimal(WIDE)),
        ("$.l", "list(decimal(76,0))", [Decimal(WIDE)]),
    ):
        columns = {"n": (path, kind)}
        source = c.find().arrow(columns)
        assert pa.table(source)["n"].to_pylist() == [value]
        assert list(source.to_pandas()["n"].map(_plain)) == [value]
        text = "column n.*decimals of up to 38 digits"
        with pytest.raises(flagstone.InvalidInput, match=text):
            source.to_polars()
        with pytest.raises(flagstone.InvalidInput, match=text):
            flagstone.scan(c, columns)
        with pytest.raises(flagstone.InvalidInput, match=f"collection 'c' is no table: {text}"):
            flagstone.connect(db, columns=columns)


def test_collections_whose_names_are_one_to_duckdb_are_named_by_the_caller(
    db: flagstone.Database,
) -> None:
    db.collection("Items")["a"] = {"n": 1}
    db.collection("items")["a"] = {"n": 2}
    with pytest.raises(flagstone.InvalidInput, match="'Items' and 'items'.*tables="):
        flagstone.connect(db)
    connection = flagstone.connect(db, tables={"Items": "Items", "lower": "items"})
    assert connection.execute("SELECT n FROM items").fetchall() == [(1,)]
    assert connection.execute("SELECT n FROM lower").fetchall() == [(2,)]
    with pytest.raises(flagstone.InvalidInput, match="'T' and 't'"):
        flagstone.connect(db, tables={"T": "Items", "t": "items"})
    with pytest.raises(Exception, match="none"):
        flagstone.connect(db, tables={"t": "none"})


@pytest.mark.parametrize("name", ["a b", 'with"quote', "select", "main.c", "\u00e9", "\u00c9", "1"])
def test_any_name_is_the_name_of_a_table(db: flagstone.Database, name: str) -> None:
    db.collection(name)["a"] = {"n": 1}
    quoted = name.replace('"', '""')
    rows = flagstone.connect(db).execute(f'SELECT n FROM "{quoted}" WHERE n < 2').fetchall()
    assert rows == [(1,)]


def test_names_that_differ_beyond_ascii_are_two_tables(db: flagstone.Database) -> None:
    db.collection("\u00e9")["a"] = {"n": 1}
    db.collection("\u00c9")["a"] = {"n": 2}
    connection = flagstone.connect(db)
    assert connection.execute('SELECT n FROM "\u00e9"').fetchall() == [(1,)]
    assert connection.execute('SELECT n FROM "\u00c9"').fetchall() == [(2,)]


def test_fields_that_differ_in_case_are_two_columns(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({n: {"a": n, "A": n * 10, "m": {"b": n, "B": -n}} for n in range(9)})
    assert pa.table(c.find().arrow()).column_names == ["_key", "a", "A", "m"]
    lazy = flagstone.scan(c)
    assert lazy.filter(pl.col("A") > 70).select("a", "A").collect().rows() == [(8, 80)]
    connection = flagstone.connect(db)
    names = [row[0] for row in connection.execute("DESCRIBE c").fetchall()]
    assert names[1] == "a" and len(set(names)) == 4
    other = names[2]
    for condition, wanted in (("a > 7", (8, 80)), (f'"{other}" > 70', (8, 80))):
        sql = f'SELECT a, "{other}" FROM c WHERE {condition}'
        assert connection.execute(sql).fetchall() == [wanted]


def test_a_field_named_as_the_column_of_keys_has_its_own_column(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({"a": {"_key": 1, "_key_1": 2}, "b": {"n": 3}})
    assert list(c.find().arrow().types) == ["_key_2", "_key", "_key_1", "n"]
    for table in (pa.table(c.find()), pa.table(flagstone.scan(c).collect().to_arrow())):
        assert table["_key_2"].to_pylist() == ["a", "b"]
        assert table["_key"].to_pylist() == [1, None]
    sql = "SELECT _key_2, _key FROM c WHERE _key = 1"
    assert flagstone.connect(db).execute(sql).fetchall() == [("a", 1)]
    # A name that was asked for is not changed.
    with pytest.raises(flagstone.InvalidInput, match='field "n".*another name'):
        c.find().arrow(key="n")
    assert list(c.find().arrow(key=None).types) == ["_key", "_key_1", "n"]


def test_a_round_trip_gives_equal_documents(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    documents = {"a": {"n": 1, "m": {"x": [1]}}, "b": {"n": 2, "m": {"x": []}}}
    c.update(documents)
    copy = db.collection("copy")
    for _ in range(2):
        copy.load_arrow(flagstone.scan(c).collect(), key="_key")
        assert {key: document.to_dict() for key, document in copy.items()} == documents
        c = copy
    copy.load_arrow(pa.table(c.find()), key="_key", keep_key=True)
    copy.load_arrow(pa.table(copy.find()), key="_key_1")
    assert copy["a"] == {"_key": "a", **documents["a"]}


def test_a_collection_that_is_no_table_is_left_out_with_a_warning(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = {"n": 1}
    db.collection("other")["a"] = {"id": 1}
    with pytest.warns(UserWarning, match="collection 'other' is no table: .*\"id\""):
        connection = flagstone.connect(db, key="id")
    assert connection.execute("SELECT id, n FROM c").fetchall() == [("a", 1)]
    with pytest.raises(flagstone.InvalidInput, match="'c' is no table: on_mismatch"):
        flagstone.connect(db, on_mismatch="ignore")


def test_an_empty_collection_is_a_table_and_what_is_new_comes_with_the_next_connect(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    connection = flagstone.connect(db)
    assert connection.execute("SELECT count(*), count(_key) FROM c").fetchall() == [(0, 0)]
    assert connection.execute("SELECT * FROM c WHERE _key = 'a'").fetchall() == []
    db.collection("new")["a"] = {"n": 1}
    c["a"] = {"n": 2}
    assert flagstone.connect(db, connection=connection) is connection
    assert connection.execute("SELECT c.n, new.n FROM c JOIN new USING (_key)").fetchall() == [(2, 1)]


def test_an_empty_collection_is_an_empty_frame(c: flagstone.Collection) -> None:
    source = c.find().arrow()
    assert source.types == {"_key": "json"}
    assert pa.table(source).shape == pl.DataFrame(source).shape[:1] + (1,) == (0, 1)
    assert source.to_pandas().shape == (0, 1)
    lazy = flagstone.scan(c)
    assert lazy.collect().shape == (0, 1)
    assert lazy.filter(pl.col("_key") == "a").select(pl.len()).collect().item() == 0
    assert list(c.find().arrow(key=None).types) == ["document"]
    columns = {"n": ("$.n", "int64"), "m": ("$.m", "struct(a: list(text))")}
    assert pl.DataFrame(c.find().arrow(columns)).schema == {
        "n": pl.Int64, "m": pl.Struct({"a": pl.List(pl.String)})
    }


def test_documents_without_fields_are_rows(db: flagstone.Database, c: flagstone.Collection) -> None:
    c.update({n: {} for n in range(3)})
    assert by_all(db, "document") == [["{}"] * 3] * 5
    c.update({n: {"n": None, "l": []} for n in range(3)})
    assert by_all(db, "n")[:3] == [[None] * 3] * 3
    assert by_all(db, "l")[1] == [[]] * 3


def test_what_json_lacks_is_no_reason_to_fail(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c.update({1: {"v": math.nan}, "two": {"v": "text"}, math.nan: {"v": {1: -math.inf}}})
    found = by_all(db, "v")
    assert found == [found[0]] * 5
    assert sorted(found[0]) == [
        '"text"', '{"$numberDouble":"NaN"}', '{"$pairs":[[1,{"$numberDouble":"-Infinity"}]]}',
    ]  # fmt: skip
    assert '{"$numberDouble":"NaN"}' in by_all(db, "_key")[0]


def test_types_of_a_source_are_types_of_columns(c: flagstone.Collection) -> None:
    c["a"] = {"m": {"first name": "x", "l": [{"y": Decimal("1.10")}]}, "n": 1, "odd, name:": {"": 1}}
    source = c.find().arrow()
    columns = {name: (f'$["{name}"]', kind) for name, kind in source.types.items()}
    columns["_key"] = ("$key", source.types["_key"])
    again = c.find().arrow(columns)
    assert again.types == source.types
    assert pa.table(again).equals(pa.table(source))


def test_duckdb_returns_times(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"] = {"at": AT}
    [(found,)] = flagstone.connect(db).execute("SELECT c.at FROM c").fetchall()
    assert found == AT
