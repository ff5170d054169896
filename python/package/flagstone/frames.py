"""Collections in the tools for data frames and SQL, which are imported only here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _flagstone, pushdown, pushdown_pyarrow
from .errors import InvalidInput

if TYPE_CHECKING:
    import duckdb
    import polars

    from . import Collection, Database, Find


# Rows that one thread reads as fast as several do.
_FEW = 20_000


def scan(source: Collection | Find, columns: Any = None, **options: Any) -> polars.LazyFrame:
    """Returns a `LazyFrame` of polars over a collection or a query.

    Only the columns that the frame needs are read, and a limit ends the reading. Comparisons of a
    column with a literal, `is_in`, `is_between`, `is_null`, `starts_with`, and what `&` and `|` make
    of them, are pushed down, so that indexes are used: see `explain_scan`. A document that cannot
    match is not read: if one of its values does not fit its column, nobody notices. One that is read
    and does not fit the columns is an error; `sample=None` asks all documents for the columns.

    `columns` and the options are those of `Find.arrow`.

    >>> import flagstone, polars
    >>> with flagstone.open("scanned") as db:
    ...     c = db.collection("comments")
    ...     c.update({n: {"score": n, "author": "xyz"[n % 3]} for n in range(9)})
    ...     frame = flagstone.scan(c).filter(polars.col("score") >= 6)
    ...     frame.select("author", "score").sort("score").collect().rows()
    [('x', 6), ('y', 7), ('z', 8)]
    """
    import polars
    from polars.io.plugins import register_io_source

    find = _query_of(source)
    whole = find.arrow(columns, **options)._for_polars()
    whole._check_decimals("polars")
    paths = pushdown.Columns(whole)
    empty = polars.DataFrame(whole._empty())

    def read(
        with_columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        wanted = whole
        if predicate is not None:
            found = pushdown.of_polars(predicate, paths)
            if found is not None:
                wanted = wanted._filtered(found)
        if with_columns is not None:
            needed = set(with_columns)
            if predicate is not None:
                needed.update(predicate.meta.root_names())
            # Of no column at all, the rows are counted by one.
            names = [name for name in whole.types if name in needed] or list(whole.types)[:1]
            wanted = wanted.select(names)
        if n_rows and predicate is None:
            # What comes after them may not fit the columns.
            wanted = wanted._first(n_rows)
        left = n_rows
        # Few rows are there before threads are.
        for batch in wanted.batches(threads=1 if n_rows is not None and n_rows < _FEW else None):
            frame = polars.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame
            if left == 0:
                return

    return register_io_source(read, schema=empty.schema, is_pure=False)


def _query_of(source: Any) -> Find:
    """Returns the query of a collection, or the query that was given."""
    if isinstance(source, _flagstone.Collection):
        return source.find()
    if isinstance(source, _flagstone.Find):
        return source
    found = type(source).__name__
    raise TypeError(f"source: expected a Collection or a Find, found {found}")


def explain_scan(
    source: Collection | Find, predicate: polars.Expr, columns: Any = None, **options: Any
) -> str:
    """Says how `scan(source, columns).filter(predicate)` reads the collection: by which filter and
    which index, and why. Nothing is read for it.

    >>> import flagstone, polars
    >>> with flagstone.open("explained") as db:
    ...     c = db.collection("comments")
    ...     c.update({n: {"score": n} for n in range(9)})
    ...     c.create_index("by_score", "score")
    ...     "by_score" in flagstone.explain_scan(c, polars.col("score") == 6)
    True
    """
    import polars
    from polars.io.plugins import register_io_source

    find = _query_of(source)
    whole = find.arrow(columns, **options)._for_polars()
    whole._check_decimals("polars")
    empty = polars.DataFrame(whole._empty())
    plans = []

    def read(
        with_columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        paths = pushdown.Columns(whole)
        found = None if predicate is None else pushdown.of_polars(predicate, paths)
        plans.append((whole if found is None else whole._filtered(found)).explain())
        yield empty if with_columns is None else empty.select(with_columns)

    register_io_source(read, schema=empty.schema, is_pure=False).filter(predicate).collect()
    return "\n".join(plans)


def connect(
    db: Database,
    *,
    tables: Mapping[str, str] | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    **options: Any,
) -> duckdb.DuckDBPyConnection:
    """Returns a connection of DuckDB in which every collection is a table.

    Each query reads the collections anew. The options are those of `Find.arrow`. A field of the
    documents is a column if a sample of them has it, or any with `sample=None`. A query of all
    columns that reads a document with another field is an error. An empty collection has the column
    of the keys alone. Collections and fields that are new are seen after another
    `connect(db, connection=connection)`, which registers all tables again. If pyarrow is installed,
    only the columns that a query needs are read, and simple conditions use indexes.

    `tables` says which collections are tables, and their names: `{"t": "comments"}`. DuckDB
    treats names that differ only in case as identical: `tables` must rename all but one.
    A collection that cannot be a table with these options is left out with a warning, unless
    `tables` names it.

    >>> import flagstone
    >>> with flagstone.open("connected") as db:
    ...     db.collection("comments").update({n: {"score": n} for n in range(9)})
    ...     with flagstone.connect(db) as connection:
    ...         connection.sql("SELECT sum(score) FROM comments").fetchall()
    [(36,)]
    """
    import duckdb

    names = [name for name, content in db.keyspaces().items() if content == "documents"]
    chosen = {name: name for name in names} if tables is None else dict(tables)
    _check_names(chosen)
    sources, refused = {}, []
    for table, name in chosen.items():
        try:
            source = db.collection(name, create=False).find().arrow(**options)
            source._check_decimals("DuckDB")
        except InvalidInput as error:
            refused.append(InvalidInput(f"collection {name!r} is no table: {error}"))
            continue
        sources[table] = source
    if refused and (tables is not None or not sources):
        raise refused[0]
    for left_out in refused:
        warnings.warn(str(left_out), stacklevel=2)
    connection = duckdb.connect() if connection is None else connection
    for table, source in sources.items():
        connection.register(table, table_of(source))
    return connection


def _check_names(tables: Mapping[str, str]) -> None:
    """Refuses names of tables that are one name to DuckDB, which takes the last one of them."""
    seen: dict[str, str] = {}
    for name in tables:
        # Of the letters with case, those of ASCII alone are folded.
        folded = "".join(c.lower() if c.isascii() else c for c in name)
        other = seen.setdefault(folded, name)
        if other != name:
            example = {other: tables[other], name + "_1": tables[name]}
            raise InvalidInput(
                f"tables {other!r} and {name!r}: to DuckDB their names are one; choose others, as "
                f"in connect(db, tables={example})"
            )


def to_pandas(table: Any) -> Any:
    """Returns a table of pyarrow as a `DataFrame`. pyarrow makes floats of integers beside null, which
    beyond 2^53 are others: such a column is `Int64` of pandas here. Lists and structs with such
    integers, and lists of UUIDs or JSON, which pyarrow does not convert, are those of Python.

    >>> import pyarrow
    >>> to_pandas(pyarrow.table({"n": [9007199254740993, None]}))["n"].tolist()
    [9007199254740993, <NA>]
    """
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    exact = {
        name: column
        for name, column in zip(table.column_names, table.columns, strict=True)
        if any(_is_for_python(chunk) for chunk in column.chunks)
    }
    frame = table.drop_columns(list(exact)).to_pandas()
    for name, column in exact.items():
        if pyarrow.types.is_integer(column.type):
            values = column.to_pandas(types_mapper=lambda _: pandas.Int64Dtype())
        else:
            values = pandas.Series(column.to_pylist(), dtype=object)
        frame.insert(table.column_names.index(name), name, values)
    return frame


def _is_for_python(array: Any, is_in_list: bool = False) -> bool:
    """Returns whether an array has integers beside null, or lists or structs of such, or lists of an
    extension type.
    """
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

    kind = array.type
    if pyarrow.types.is_integer(kind):
        return bool(array.null_count)
    if isinstance(kind, pyarrow.BaseExtensionType):
        return is_in_list
    if pyarrow.types.is_list(kind):
        return _is_for_python(array.flatten(), True)
    if pyarrow.types.is_struct(kind):
        # A struct that is null has fields that are.
        return any(_is_for_python(field, is_in_list) for field in array.flatten())
    return False


class _Unfiltered:
    """What DuckDB takes of a scanner. It reads the stream as it comes: a scanner of pyarrow would
    hand each batch through threads of its own.
    """

    def __init__(self, source: Any, reader: Any) -> None:
        self._source, self._reader = source, reader

    def to_reader(self) -> Any:
        return self._reader.from_stream(self._source)


def table_of(source: Any) -> Any:
    """Returns what DuckDB reads a source by: with pyarrow, a dataset, to which it passes columns
    and conditions.
    """
    try:
        from pyarrow import (  # type: ignore[import-untyped, unused-ignore]
            RecordBatchReader,
            dataset,
            schema,
        )
    except ImportError:
        return source
    paths = pushdown.Columns(source)

    class Table(dataset.Dataset):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            pass

        @property
        def schema(self) -> Any:
            return schema(source)

        def scanner(self, columns: Any = None, filter: Any = None, **more: Any) -> Any:
            read = source
            if filter is not None:
                found = pushdown_pyarrow.of_pyarrow(filter, paths)
                if found is not None:
                    read = read._filtered(found)
            if columns is None:
                # Of keys alone, nobody asks for the fields that there are by now.
                read = read.select(list(source.types))
            else:
                text = "" if filter is None else str(filter)
                needed = [name for name in source.types if name in columns or name in text]
                read = read.select(needed or list(source.types)[:1])
            if filter is None and columns is not None:
                return _Unfiltered(read.select(columns), RecordBatchReader)
            # The whole filter: what was pushed down may hold for more.
            return dataset.Scanner.from_batches(
                RecordBatchReader.from_stream(read), columns=columns, filter=filter
            )

    return Table()


__all__ = ["connect", "explain_scan", "scan"]
