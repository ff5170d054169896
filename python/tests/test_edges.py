"""What a user may try beside the usual: models with special fields, odd arguments."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterator
from typing import Any, ClassVar

import flagstone
import msgspec
import pydantic
import pytest

UTC = datetime.timezone.utc


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def test_a_part_that_was_replaced_says_so(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = {"m": {"x": 1}}
    with db.transaction() as tx:
        document = tx[c]["a"]
        part = document["m"]
        document["m"] = [1, 2]
        for read in (lambda: len(part), lambda: list(part), lambda: part["x"], lambda: repr(part)):
            with pytest.raises(flagstone.InvalidInput, match="m is no map any more"):
                read()


def test_a_name_that_is_no_text_is_in_no_document(c: flagstone.Collection) -> None:
    c["a"] = {"x": 1}
    assert "\ud800" not in c["a"]
    with pytest.raises(KeyError):
        c["a"]["\ud800"]


def test_a_time_that_python_cannot_read_back_is_refused(c: flagstone.Collection) -> None:
    east, west = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (14, -12))
    for at in (
        datetime.datetime(1, 1, 1, tzinfo=east),
        datetime.datetime(9999, 12, 31, 23, tzinfo=west),
    ):
        with pytest.raises(TypeError, match=r"\$\.t: a datetime that in UTC is beyond"):
            c["a"] = {"t": at}
    for at in (
        datetime.datetime(1, 1, 1, tzinfo=UTC),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ):
        c["a"] = {"t": at}
        assert c["a"]["t"] == at


def test_what_has_no_json_is_shown_in_notebooks(c: flagstone.Collection) -> None:
    c["a"] = {"n": {"f": math.nan}}
    c["b"] = {1: 2}
    c["c"] = {"m": {"u": {1: 2}}}
    table = c._repr_html_()
    assert "NaN" in table and "<th>key</th>" in table


@dataclasses.dataclass
class Special:
    name: str
    given: dataclasses.InitVar[int] = 3
    kinds: ClassVar[int] = 7
    made: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, given: int) -> None:
        self.made = 2 * given


class Aliased(pydantic.BaseModel):
    name: str = pydantic.Field(alias="userName")


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    at: datetime.datetime
    data: bytes
    left_out: Any = msgspec.UNSET


class Tagged(msgspec.Struct, tag="tagged"):
    x: int


class Row(msgspec.Struct, array_like=True):
    x: int
    y: str


def test_models_with_special_fields_come_out_as_they_went_in(c: flagstone.Collection) -> None:
    special = Special("a", given=5)
    special.made = 11
    c["a"] = special
    assert c["a"] == {"name": "a", "made": 11}
    assert c.get("a", type=Special) == special
    c["b"] = Aliased(userName="x")
    assert c["b"] == {"userName": "x"}
    assert c.get("b", type=Aliased) == Aliased(userName="x")
    at = datetime.datetime(2024, 5, 6, tzinfo=UTC)
    renamed = Renamed("a", at, b"\x00\xff")
    c["c"] = renamed
    assert c["c"] == {"firstName": "a", "at": at, "data": b"\x00\xff"}
    assert c.get("c", type=Renamed) == renamed
    c["d"] = Tagged(3)
    assert c["d"] == {"type": "tagged", "x": 3}
    assert c.get("d", type=Tagged) == Tagged(3)
    c["e"] = {"row": Row(1, "y")}
    assert c["e"] == {"row": [1, "y"]}


@pytest.mark.parametrize("name", ["limit", "skip"])
def test_numbers_of_a_query_are_numbers_from_0_on(c: flagstone.Collection, name: str) -> None:
    with pytest.raises(flagstone.InvalidInput, match=f"{name}: expected an int from 0 on, found -1"):
        c.find(**{name: -1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"{name}: expected an int from 0 on, found True"):
        c.find(**{name: True})  # type: ignore[arg-type]


def test_an_exception_of_a_producer_ends_a_load_as_what_it_is(c: flagstone.Collection) -> None:
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("id", pa.int64())])

    def batches(error: BaseException) -> Iterator[Any]:
        yield pa.record_batch({"id": [1]}, schema=schema)
        raise error

    def load(error: BaseException) -> None:
        c.load_arrow(pa.RecordBatchReader.from_batches(schema, batches(error)))

    with pytest.raises(KeyboardInterrupt):
        load(KeyboardInterrupt())
    with pytest.raises(flagstone.Io, match="the sensor is gone") as raised:
        load(ValueError("the sensor is gone"))
    assert "Traceback" not in str(raised.value) and "\n" not in str(raised.value)


def test_times_of_numpy_do_not_become_integers(c: flagstone.Collection) -> None:
    """Those in nanoseconds, months and years did, in documents, keys and filters."""
    np = pytest.importorskip("numpy")
    moment, span = r"datetime64 has no time zone", r"timedelta64 is not supported"
    for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"):
        for value, why in (
            (np.datetime64(1, unit), moment),
            (np.datetime64("NaT", unit), moment),
            (np.array([1, 2], f"datetime64[{unit}]"), moment),
            (np.zeros(2, [("n", "i4"), ("t", f"datetime64[{unit}]", 3)]), moment),
            (np.zeros((), [("a", [("t", f"timedelta64[{unit}]")])])[()], span),
            (np.array([None, np.timedelta64(1, unit)], object), span),
            (np.timedelta64(5, unit), span),
            (np.timedelta64("NaT", unit), span),
        ):
            with pytest.raises(TypeError, match=r"\$\.t.*" + why):
                c["a"] = {"t": value}
            with pytest.raises(TypeError, match=why):
                c.find({"t": value}).first()
        with pytest.raises(TypeError, match=moment):
            c[np.datetime64(1, unit)] = {}
    assert len(c) == 0
    for value, read in (
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.array(7), 7),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.zeros(1, [("n", "i4"), ("x", "f8")]), [[0, 0.0]]),
        (np.array([]), []),
    ):
        c["a"] = {"t": value}
        assert c["a"]["t"] == read
    if np.dtype(np.longdouble).itemsize > 8:
        # It is its own list, so it was said to be nested in itself.
        with pytest.raises(TypeError, match=r"\$\.t: numpy.longdouble is not supported"):
            c["a"] = {"t": np.longdouble(1)}


def test_a_change_takes_a_dotted_path_alone(c: flagstone.Collection) -> None:
    """A JSONPath or a JSON Pointer was a field of a strange name."""
    c["a"] = {"z": 0, "a.b": 1, "$ref": 2}
    c.update("a", inc={"$.z": 1})
    for path in ("$['a.b']", "$.$['a.b']", "$.t[0]", "$..t", "$.*", "$", "/z"):
        changes: list[dict[str, Any]] = [
            {"set": {path: 1}},
            {"unset": path},
            {"rename": {"z": path}},
        ]
        for change in changes:
            with pytest.raises(flagstone.InvalidInput, match="expected a dotted path"):
                c.update("a", **change)
    c.update("a", inc={"$ref": 1})
    assert c["a"] == {"z": 1, "a.b": 1, "$ref": 3}


def test_a_copy_is_not_made_inside_of_the_database(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = {}
    before = sorted(path.name for path in db.path.iterdir())
    for copy in (db.checkpoint, db.backup):
        for to in (db.path / "copy", db.path / "." / "x" / "y"):
            with pytest.raises(flagstone.InvalidInput, match="is inside of"):
                copy(to)
    assert sorted(path.name for path in db.path.iterdir()) == before
