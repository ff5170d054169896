"""Collections in the tools for data frames and SQL, which are imported only here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import polars

    from . import Collection, Database, Find


def scan(source: Collection | Find, columns: Any = None, **options: Any) -> polars.LazyFrame:
    """Returns a `LazyFrame` of polars over a collection or a query.

    Only the columns that the frame needs are read, and a limit ends the reading. `columns` and the
    options are those of `Find.arrow`.
    """
    import polars
    from polars.io.plugins import register_io_source

    find = source.find() if hasattr(source, "find") else source
    whole = find.arrow(columns, **options)
    empty = polars.DataFrame(whole._empty())

    def read(
        with_columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        wanted = whole if with_columns is None else whole.select(with_columns)
        left = n_rows
        for batch in wanted.batches():
            frame = polars.DataFrame(batch)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame
            if left == 0:
                return

    return register_io_source(read, schema=empty.schema, is_pure=False)


def connect(db: Database, **options: Any) -> duckdb.DuckDBPyConnection:
    """Returns a connection of DuckDB in which every collection that is not empty is a table.

    Each query reads the collections anew. The options are those of `Find.arrow`. A field of the
    documents is a column if a sample of them has it; see `Find.arrow`.
    """
    import duckdb

    connection = duckdb.connect()
    for name, content in db.keyspaces().items():
        if content == "documents":
            collection = db.collection(name, create=False)
            if collection:
                connection.register(name, collection.find().arrow(**options))
    return connection


__all__ = ["connect", "scan"]
