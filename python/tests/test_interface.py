"""Arrow's C interface: what breaks its rules is an error, and so is a panic on our side of it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import flagstone
import pytest
from flagstone import _flagstone

pa = pytest.importorskip("pyarrow")

N = 1000
IDS = pa.array(range(N), pa.int64())


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


# Batches of another schema ---------------------------------------------------------------------


def reader(promised: Any, given: list[Any], names: list[str]) -> Any:
    """A reader whose batch has another schema than it says, which pyarrow does not compare."""
    batch = pa.RecordBatch.from_arrays(given, names=names)
    return pa.RecordBatchReader.from_batches(promised, iter([batch]))


def column(promised: Any, given: Any) -> Any:
    schema = pa.schema([("id", pa.int64()), ("v", promised)])
    return reader(schema, [IDS, given], ["id", "v"])


UUIDS = pa.array([bytes(16)] * N, pa.uuid())
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "int8 as int64": (pa.int64(), pa.array([1] * N, pa.int8())),
    "int32 as timestamp": (pa.timestamp("us", "UTC"), pa.array([1] * N, pa.int32())),
    "seconds as microseconds": (
        pa.timestamp("us", "UTC"), pa.array([1] * N, pa.timestamp("s", "UTC"))
    ),
    "text as large text": (pa.large_utf8(), pa.array(["x"] * N)),
    "text as a view": (pa.string_view(), pa.array(["x"] * N)),
    "a view as text": (pa.utf8(), pa.array(["x" * 50] * N, pa.string_view())),
    "text as a list": (pa.list_(pa.int64()), pa.array(["x"] * N)),
    "text as bytes": (pa.binary(), pa.array(["x"] * N)),
    "narrow bytes as wide ones": (pa.binary(64), pa.array([b"x"] * N, pa.binary(1))),
    "decimals of another scale": (pa.decimal128(38, 2), pa.array([1] * N, pa.decimal128(38, 0))),
    "decimals of another width": (pa.decimal256(38, 0), pa.array([1] * N, pa.decimal128(38, 0))),
    "a list of others": (pa.list_(pa.int64()), pa.array([[1]] * N, pa.list_(pa.int8()))),
    "a longer list": (pa.list_(pa.int8(), 64), pa.array([[1]] * N, pa.list_(pa.int8(), 1))),
    "a struct of more": (
        pa.struct([("a", pa.int64()), ("b", pa.int64())]),
        pa.array([{"a": 1}] * N, pa.struct([("a", pa.int64())])),
    ),
    "a struct of others": (
        pa.struct([("a", pa.int64())]), pa.array([{"a": 1}] * N, pa.struct([("a", pa.int8())]))
    ),
    "a struct with other names": (
        pa.struct([("a", pa.int64())]), pa.array([{"b": 1}] * N, pa.struct([("b", pa.int64())]))
    ),
    "a dictionary as its values": (pa.utf8(), pa.array(["x"] * N).dictionary_encode()),
    "values as a dictionary": (pa.dictionary(pa.int32(), pa.utf8()), pa.array(["x"] * N)),
    "a dictionary of others": (
        pa.dictionary(pa.int32(), pa.int64()),
        pa.DictionaryArray.from_arrays(pa.array([0] * N, pa.int32()), pa.array([1], pa.int8())),
    ),
    "a dictionary with other keys": (
        pa.dictionary(pa.int64(), pa.utf8()),
        pa.DictionaryArray.from_arrays(pa.array([0] * N, pa.int8()), pa.array(["x"])),
    ),
    "runs of others": (
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([1], pa.int8())),
    ),
    "a map of others": (
        pa.map_(pa.utf8(), pa.int64()), pa.array([[("a", 1)]] * N, pa.map_(pa.utf8(), pa.int8()))
    ),
    "bytes as a UUID": (pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16))),
    "a UUID as bytes": (pa.binary(16), UUIDS),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_batch_of_another_type_than_its_reader_is_refused(
    c: flagstone.Collection, name: str
) -> None:
    """It was read with the reader's types, and so beyond its buffers: what lay behind them in the
    process became documents, or the process crashed.
    """
    promised, given = DIFFERENT[name]
    with pytest.raises(flagstone.InvalidInput, match="0 rows.* column v: expected .*, found "):
        c.load_arrow(column(promised, given))
    assert len(c) == 0
    c[1] = {"still": "usable"}


def test_a_batch_with_other_columns_than_its_reader_is_refused(c: flagstone.Collection) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    for given, names in (
        ([IDS], ["id"]),
        ([IDS, IDS, IDS], ["id", "v", "w"]),
        ([IDS, IDS], ["v", "id"]),
        ([IDS, IDS], ["id", "w"]),
    ):
        with pytest.raises(flagstone.InvalidInput, match='expected "id", "v", found '):
            c.load_arrow(reader(schema, given, names))
    assert len(c) == 0


def test_batches_before_the_one_that_differs_are_loaded(c: flagstone.Collection) -> None:
    schema = pa.schema([("id", pa.int64())])
    batches = [pa.record_batch({"id": IDS}), pa.record_batch({"id": IDS.cast(pa.int16())})]
    made = pa.RecordBatchReader.from_batches(schema, iter(batches))
    with pytest.raises(flagstone.InvalidInput, match="^1000 documents.* after 1000 rows"):
        c.load_arrow(made)
    assert len(c) == N


def test_what_only_describes_a_column_may_differ(c: flagstone.Collection) -> None:
    schema = pa.schema([
        pa.field("id", pa.int64(), nullable=False, metadata={"a": "b"}),
        pa.field("v", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    ])
    given = pa.array([[n] for n in range(N)])
    c.load_arrow(reader(schema, [IDS, given], ["id", "v"]))
    assert c[7].to_dict() == {"id": 7, "v": [7]}


# Buffers that are too short ----------------------------------------------------------------------


def read_from_file(path: Path, length: int) -> Any:
    """A table whose file says that it has more rows than it has bytes of."""
    table = pa.table({"id": pa.array(range(8), pa.int64())})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    data = path.read_bytes()
    # The lengths of the batch and of its column.
    found = data.count((8).to_bytes(8, "little"))
    assert found >= 2
    path.write_bytes(data.replace((8).to_bytes(8, "little"), length.to_bytes(8, "little")))
    return pa.ipc.open_stream(pa.memory_map(str(path)))


def test_a_file_of_arrow_whose_buffers_are_too_short_is_refused(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    """pyarrow reads it without a look at the sizes, which the C interface does not carry."""
    for kind in ("reader", "table", "batch"):
        opened = read_from_file(tmp_path / kind, 5000)
        try:
            given = {
                "reader": lambda opened: opened,
                "table": lambda opened: opened.read_all(),
                "batch": lambda opened: opened.read_next_batch(),
            }[kind](opened)
        except pa.ArrowInvalid:
            continue
        with pytest.raises(flagstone.Io, match="uffer"):
            c.load_arrow(given)
        assert len(c) == 0


@pytest.mark.parametrize("kind", [pa.utf8(), pa.binary(), pa.list_(pa.int8()), pa.large_utf8()])
def test_offsets_that_are_wrong_are_refused(c: flagstone.Collection, kind: Any) -> None:
    width = 8 if kind == pa.large_utf8() else 4
    for offsets in ([0, 2, 1, 3], [0, 90_000_000, 1, 3], [0, -1, 1, 3]):
        data = b"".join(n.to_bytes(width, "little", signed=True) for n in offsets)
        buffers = [None, pa.py_buffer(data)]
        child = pa.array([1, 2, 3], pa.int8())
        if pa.types.is_list(kind):
            array = pa.Array.from_buffers(kind, 3, buffers, children=[child])
        else:
            array = pa.Array.from_buffers(kind, 3, [*buffers, pa.py_buffer(b"abc")])
        with pytest.raises(flagstone.Error, match="(?i)offset"):
            c.load_arrow(pa.table({"id": [1, 2, 3], "v": array}))
    assert len(c) == 0


def test_keys_of_a_dictionary_and_text_that_are_wrong_are_refused(c: flagstone.Collection) -> None:
    keys = pa.array([0, 77, -5], pa.int32())
    array = pa.DictionaryArray.from_arrays(keys, pa.array(["a"]), safe=False)
    with pytest.raises(flagstone.Error, match="out of bounds"):
        c.load_arrow(pa.table({"id": [1, 2, 3], "v": array}))
    text = pa.array([b"\xff", b"a"]).view(pa.utf8())
    with pytest.raises(flagstone.Error, match="(?i)utf"):
        c.load_arrow(pa.table({"id": [1, 2], "v": text}))
    assert len(c) == 0


def test_offsets_at_an_odd_address_are_refused(c: flagstone.Collection) -> None:
    offsets = pa.py_buffer(b"\0" + b"".join(n.to_bytes(4, "little") for n in (0, 1, 2)))
    array = pa.Array.from_buffers(pa.utf8(), 2, [None, offsets.slice(1), pa.py_buffer(b"ab")])
    with pytest.raises(flagstone.Error, match="no address of 4 bytes"):
        c.load_arrow(pa.table({"id": [1, 2], "v": array}))


def test_an_array_alone_is_one_batch(c: flagstone.Collection) -> None:
    class Array:
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return pa.record_batch({"id": [1, 2], "v": ["a", "b"]}).__arrow_c_array__()

    assert c.load_arrow(Array())["documents"] == 2
    assert c[2].to_dict() == {"id": 2, "v": "b"}

    class NoStruct:
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return pa.array([1]).__arrow_c_array__()

    with pytest.raises(flagstone.InvalidInput, match="structs of columns, found Int64"):
        c.load_arrow(NoStruct())


def test_a_type_that_is_not_known_names_its_column(c: flagstone.Collection) -> None:
    """It was an error of input and output, and named none: polars has integers of 128 bits."""
    text = "column v: unsupported Arrow type: .*no such"
    with pytest.raises(flagstone.InvalidInput, match=text):
        c.load_arrow(Hostile(set_to("v", "format", b"no such")))


def test_a_row_that_is_null_is_refused(c: flagstone.Collection) -> None:
    """It was loaded as what lies below a null: a document of zeros."""
    rows = pa.array([{"id": 1, "v": "a"}, None, {"id": 3, "v": "c"}])
    with pytest.raises(flagstone.InvalidInput, match="row 1 of a batch is null"):
        c.load_arrow(rows)
    assert len(c) == 0
    assert c.load_arrow(rows[2:])["documents"] == 1 and c[3] == {"id": 3, "v": "c"}


def test_a_dictionary_has_the_extension_type_of_its_values(c: flagstone.Collection) -> None:
    """The type was lost: UUIDs in a dictionary were loaded as bytes, months as integers."""
    def load(values: Any) -> None:
        indices = pa.array([1, 0, None], pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, values)
        c.load_arrow(pa.table({"id": [0, 1, 2], "v": column, "in": pa.array([[0], [1], []])}))

    load(pa.array([bytes(16), bytes(range(16))], pa.uuid()))
    assert [doc["v"] for doc in c.values()] == [UUID(bytes=bytes(range(16))), UUID(int=0), None]
    load(pa.array(['{"a":1}', "[2]"], pa.json_()))
    assert [c[key].to_dict()["v"] for key in c] == [[2], {"a": 1}, None]
    months = pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "month", "x"), pa.array([1, 2]))
    with pytest.raises(flagstone.InvalidInput, match="column v: the extension type arrow.opaque"):
        load(months)
    within = pa.ListArray.from_arrays(
        pa.array([0, 2], pa.int32()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), months),
    )
    with pytest.raises(flagstone.InvalidInput, match="column v: the extension type arrow.opaque"):
        c.load_arrow(pa.table({"id": [1], "v": within}))


# A producer that breaks the rules of the interface ----------------------------------------------


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


class CStream(ctypes.Structure):
    pass


Pointer = ctypes.c_void_p
CSchema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))), ("dictionary", ctypes.POINTER(CSchema)),
    ("release", Pointer), ("private", Pointer),
]
CArray._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(Pointer)), ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)), ("release", Pointer), ("private", Pointer),
]
CStream._fields_ = [
    ("get_schema", Pointer), ("get_next", Pointer), ("get_last_error", Pointer),
    ("release", Pointer), ("private", Pointer),
]
CALL = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, Pointer)
RELEASE = ctypes.CFUNCTYPE(None, Pointer)
CAPSULE = ctypes.pythonapi.PyCapsule_New
CAPSULE.restype, CAPSULE.argtypes = ctypes.py_object, [Pointer, ctypes.c_char_p, Pointer]


class Hostile:
    """A stream of one batch with the columns id and v, two rows each, which a test changes. What it
    points to belongs to Python.
    """

    def __init__(self, change: Callable[[Hostile], None], format: bytes = b"u") -> None:
        self.kept: list[Any] = []
        self.release = RELEASE(self._release)
        self.id, self.v = self.schema(b"l", b"id"), self.schema(format, b"v")
        self.root = self.schema(b"+s", b"")
        self.root.n_children, self.root.children = 2, self.pointers(CSchema, [self.id, self.v])
        self.ids = self.array([None, (ctypes.c_int64 * 2)(1, 2)])
        text = [None, (ctypes.c_int32 * 3)(0, 1, 2), ctypes.create_string_buffer(b"ab")]
        self.values = self.array(text)
        self.all = self.array([None])
        self.all.n_children, self.all.children = 2, self.pointers(CArray, [self.ids, self.values])
        self.is_first = True
        self.get_schema, self.get_next = CALL(self._get_schema), CALL(self._get_next)
        self.stream = CStream(
            ctypes.cast(self.get_schema, Pointer), ctypes.cast(self.get_next, Pointer), None,
            ctypes.cast(self.release, Pointer), None,
        )
        change(self)

    def schema(self, format: bytes, name: bytes) -> CSchema:
        return CSchema(format, name, None, 2, 0, None, None, ctypes.cast(self.release, Pointer))

    def array(self, buffers: list[Any]) -> CArray:
        self.kept.append(buffers)
        of = [None if one is None else ctypes.addressof(one) for one in buffers]
        made = (Pointer * len(of))(*of)
        return CArray(
            2, 0, 0, len(of), 0, made, None, None, ctypes.cast(self.release, Pointer), None
        )

    def pointers(self, kind: Any, of: list[Any]) -> Any:
        made = (ctypes.POINTER(kind) * len(of))(*[ctypes.pointer(one) for one in of])
        self.kept.append(made)
        return made

    def _release(self, what: int) -> None:
        # The place of the callback differs: the struct that is released ends here anyway.
        pass

    def _get_schema(self, stream: int, out: int) -> int:
        ctypes.memmove(out, ctypes.byref(self.root), ctypes.sizeof(CSchema))
        return 0

    def _get_next(self, stream: int, out: int) -> int:
        if self.is_first:
            ctypes.memmove(out, ctypes.byref(self.all), ctypes.sizeof(CArray))
        else:
            ctypes.memset(out, 0, ctypes.sizeof(CArray))
        self.is_first = False
        return 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return CAPSULE(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def set_to(what: str, name: str, value: Any) -> Callable[[Hostile], None]:
    return lambda hostile: setattr(getattr(hostile, what), name, value)


def deep(hostile: Hostile) -> None:
    inner = hostile.v
    for _ in range(600):
        outer = hostile.schema(b"+l", b"v")
        outer.n_children, outer.children = 1, hostile.pointers(CSchema, [inner])
        hostile.kept.append(inner)
        inner = outer
    hostile.root.children = hostile.pointers(CSchema, [hostile.id, inner])


def nothing(hostile: Hostile) -> None:
    pass


def test_a_producer_of_its_own_is_loaded(c: flagstone.Collection) -> None:
    assert c.load_arrow(Hostile(nothing))["documents"] == 2
    assert [document.to_dict() for document in c.values()] == [
        {"id": 1, "v": "a"}, {"id": 2, "v": "b"}
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_to("stream", "get_schema", None), "it was read before"),
        (set_to("stream", "release", None), "it was read before"),
        (set_to("stream", "get_next", None), "without get_next"),
        (set_to("root", "release", None), "a schema that was released"),
        (set_to("root", "format", None), "a type without a format"),
        (set_to("root", "format", b"l"), "with 2 children"),
        (set_to("root", "children", None), "children at null"),
        (set_to("root", "n_children", -1), "with -1 children"),
        (set_to("root", "n_children", 1 << 40), "with 1099511627776 children"),
        (set_to("v", "format", None), "a type without a format"),
        (set_to("v", "format", b"\xff\xfe"), "a format that is not UTF-8"),
        (set_to("v", "format", b"w:-4"), "bytes of -4 bytes"),
        (set_to("v", "format", b"+l"), "with 0 children"),
        (set_to("v", "name", b"\xff"), "a name that is not UTF-8"),
        (set_to("v", "metadata", b"\xff\xff\xff\x7f"), "metadata of 2147483647 entries"),
        (set_to("v", "metadata", b"\xff\xff\xff\xff"), "metadata of -1 entries"),
        (deep, "more than 512 nested types"),
        (set_to("all", "length", -2), "the length -2"),
        (set_to("all", "length", 1 << 62), "the length 4611686018427387904"),
        (set_to("all", "length", 3), "an array of 2 values where 3"),
        (set_to("all", "n_buffers", 0), "0 buffers, where 1"),
        (set_to("all", "n_children", 1), "1 children"),
        (set_to("all", "children", None), "children at null"),
        (set_to("values", "length", 1), "an array of 1 values where 2"),
        (set_to("values", "offset", -1), "the offset -1"),
        (set_to("values", "null_count", 5), "5 nulls among 2 values"),
        (set_to("values", "null_count", 1), "1 nulls and no buffer"),
        (set_to("values", "n_buffers", 2), "2 buffers, where 3"),
        (set_to("values", "n_buffers", 4), "4 buffers, where 3"),
        (set_to("values", "buffers", None), "3 buffers"),
        (lambda hostile: hostile.values.buffers.__setitem__(1, None), "offsets at 0x0"),
        (lambda hostile: hostile.values.buffers.__setitem__(2, None), "null"),
        (lambda hostile: hostile.ids.buffers.__setitem__(1, None), "null"),
        (
            lambda hostile: setattr(hostile.values, "dictionary", ctypes.pointer(hostile.ids)),
            "with a dictionary",
        ),
        (
            lambda hostile: setattr(hostile.v, "dictionary", ctypes.pointer(hostile.id)),
            "a dictionary with keys of the type",
        ),
    ],
)
def test_a_producer_that_breaks_the_rules_is_refused(
    c: flagstone.Collection, change: Callable[[Hostile], None], text: str
) -> None:
    """Some of these have crashed the process; others have ended the use of the database."""
    with pytest.raises(flagstone.Io, match=text):
        c.load_arrow(Hostile(change))
    assert len(c) == 0
    c[1] = {"still": "usable"}


@pytest.mark.parametrize("format", [b"vu", b"+r", b"n", b"L", b"b", b"U", b"w:3", b"+vl", b"d:5,2"])
def test_buffers_of_another_type_do_no_harm(c: flagstone.Collection, format: bytes) -> None:
    with pytest.raises(flagstone.Error):
        c.load_arrow(Hostile(nothing, format))
    assert len(c) == 0


def test_a_capsule_of_another_name_is_refused(c: flagstone.Collection) -> None:
    class Wrong:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return CAPSULE(ctypes.addressof(ctypes.c_int64(0)), b"another", None)

    with pytest.raises(ValueError, match="PyCapsule"):
        c.load_arrow(Wrong())


# Panics on our side --------------------------------------------------------------------------------


CHILD = """
import flagstone, sys, tempfile
from flagstone import _flagstone
db = flagstone.open(tempfile.mkdtemp() + "/d", memory="64MiB")
c = db.collection("c")
c.update({n: {"n": n} for n in range(10)})
place = sys.argv[1]
if not _flagstone._panic_at("nowhere"):
    sys.exit(3)
import pyarrow, polars, duckdb
def of_duckdb(source):
    return duckdb.sql("SELECT * FROM source").fetchall()
for read in (pyarrow.table, polars.DataFrame, of_duckdb):
    source = c.arrow()
    _flagstone._panic_at(place)
    if place == "get_last_error":
        c[11] = {"n": "no number"}
    try:
        read(source)
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
    else:
        print("fine")
    c.pop(11, None)
    _flagstone._panic_at("nowhere")
    assert pyarrow.table(c.arrow()).num_rows == 10
"""


@pytest.mark.parametrize("place", ["get_schema", "get_next", "get_last_error", "release"])
def test_a_panic_in_a_callback_is_an_error_of_the_stream(place: str) -> None:
    """It ended the process: a panic must not leave a function that another language has called."""
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, place], capture_output=True, text=True, timeout=120
    )
    if done.returncode == 3:
        pytest.skip("a release build has no panics for tests")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    if place == "release":
        assert lines == ["fine"] * 3
    elif place != "get_last_error":
        assert all("a panic for a test" in line for line in lines), lines
    else:
        assert not any(line == "fine" for line in lines), lines


def test_a_panic_in_a_method_is_an_exception(c: flagstone.Collection) -> None:
    c[1] = {"n": 1}
    [batch] = c.arrow().batches()
    if not _flagstone._panic_at("len"):
        pytest.skip("a release build has no panics for tests")
    with pytest.raises(BaseException, match="a panic for a test") as raised:
        len(batch)
    assert type(raised.value).__name__ == "PanicException"
    assert len(batch) == 1 and c[1]["n"] == 1


# Names that Arrow cannot carry -----------------------------------------------------------------


READERS: dict[str, Callable[[flagstone.Collection, flagstone.Database], Any]] = {
    "to_polars": lambda c, db: c.find().to_polars(),
    "to_pandas": lambda c, db: c.find().to_pandas(),
    "to_pyarrow": lambda c, db: c.find().to_pyarrow(),
    "table": lambda c, db: pa.table(c),
    "arrow": lambda c, db: c.arrow(),
    "sample": lambda c, db: c.arrow(sample=None),
    "find": lambda c, db: c.find().__arrow_c_stream__(),
    "scan": lambda c, db: flagstone.scan(c).collect(),
    "connect": lambda c, db: flagstone.connect(db).sql("from c").fetchall(),
    "columns": lambda c, db: c.arrow({"a\0b": "$.x"}),
    "a type": lambda c, db: c.arrow({"a": ("$.x", 'list(struct("a\\u0000b": int64))')}),
    "load": lambda c, db: db.collection("copy").load_arrow(c),
}


@pytest.mark.parametrize("name", READERS)
def test_a_name_with_a_nul_is_refused_by_its_name(
    db: flagstone.Database, c: flagstone.Collection, name: str
) -> None:
    """It ended the process: Arrow's names are text of C, which ends at a 0."""
    c[1] = {"a\0b": 1, "x": 2}
    with pytest.raises(flagstone.InvalidInput, match=r'name "a\\0b" has the character U\+0000'):
        READERS[name](c, db)
    with pytest.raises(flagstone.InvalidInput, match=r'name "k\\0" has the character U\+0000'):
        c.arrow({"x": "$.x", "k\0": "$key"})
    # The other fields can be read, and so can this one under another name.
    source = c.arrow({"x": "$.x", "y": '$["a\\u0000b"]'})
    assert source.to_pyarrow().to_pylist() == [{"x": 2, "y": 1}]


def test_a_name_with_a_nul_inside_of_a_field_makes_it_json(c: flagstone.Collection) -> None:
    c[1] = {"m": {"a\0b": [1]}, "l": [{"\0": 1}], "x": {"m": {"": {"a\0": 1}}}}
    source = c.arrow(key=None)
    types = {"m": "json", "l": "list(json)", "x": 'struct(m: struct("": json))'}
    assert source.types == types
    row = {"m": '{"a\\u0000b":[1]}', "l": ['{"\\u0000":1}'], "x": {"m": {"": '{"a\\u0000":1}'}}}
    assert source.to_pyarrow().to_pylist() == [row]


def test_text_with_a_nul_is_text(db: flagstone.Database, c: flagstone.Collection) -> None:
    c.update({"k\0": {"t": "a\0b"}, "l": {"t": "c"}})
    rows = [{"_key": "k\0", "t": "a\0b"}, {"_key": "l", "t": "c"}]
    assert sorted(c.arrow().to_pyarrow().to_pylist(), key=str) == sorted(rows, key=str)
    # The text of an error ends at no 0.
    c.update({"bad\0key": {"t": 5}})
    with pytest.raises(Exception, match="bad.*column t: expected text, found 5"):
        c.arrow({"t": ("$.t", "text")}).to_pyarrow()


def test_lists_within_lists_beyond_what_others_take_are_json(c: flagstone.Collection) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    c[1] = {"deep": deep, "maps": None}
    inner: Any = {"x": 1}
    for _ in range(200):
        inner = {"a": inner}
    c[2] = {"maps": inner}
    for read in ("to_pyarrow", "to_polars", "to_pandas"):
        assert len(getattr(c.find(), read)()) == 2
    copy = c.arrow().to_pyarrow()
    c.clear()
    c.load_arrow(copy, key="_key", nulls="drop")
    assert c[1]["deep"] == deep and c[2].to_dict()["maps"] == inner


def test_names_that_pyarrow_would_cut_are_refused(c: flagstone.Collection) -> None:
    """`a\\0b` was loaded as `a`."""
    inner = pa.StructArray.from_arrays([pa.array([1])], ["x\0y"])
    for table in (pa.table({"id": [1], "a\0b": [1]}), pa.table({"id": [1], "s": inner})):
        for given in (table, table.to_reader(), table.to_batches()[0]):
            with pytest.raises(flagstone.InvalidInput, match=r"[ax]\\0[by].*U\+0000"):
                c.load_arrow(given)
    assert len(c) == 0


def test_objects_of_python_in_a_frame_of_polars_are_refused(c: flagstone.Collection) -> None:
    """Their addresses were loaded as bytes."""
    polars = pytest.importorskip("polars")
    schema = {"id": polars.Int64, "o": polars.Object}
    frame = polars.DataFrame({"id": [1], "o": [object()]}, schema=schema)
    with pytest.raises(flagstone.InvalidInput, match="column o: Object of polars is not supported"):
        c.load_arrow(frame)
    c.load_arrow(frame.drop("o"))
    assert c[1].to_dict() == {"id": 1}


@pytest.mark.parametrize("path", ["a\0b", b"a\0b", "a\ud800"])
def test_a_path_that_the_system_cannot_have_is_refused(
    db: flagstone.Database, c: flagstone.Collection, tmp_path: Path, path: Any
) -> None:
    for use in (
        flagstone.open, db.backup, db.checkpoint, c.load,
        lambda path: flagstone.open(tmp_path / "other", scratch=path),
    ):
        with pytest.raises(flagstone.InvalidInput, match="(path|files|scratch): expected a path"):
            use(path)
    assert not (tmp_path / "other").exists()


def test_a_path_of_a_column_is_text_in_utf_8(c: flagstone.Collection) -> None:
    with pytest.raises(TypeError, match="column x: expected text without lone surrogates"):
        c.arrow({"x": "\ud800"})
