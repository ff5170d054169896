"""Predicates of polars as filters; those of DuckDB are in `pushdown_pyarrow`.

A filter that is pushed down finds every document of which the predicate may hold, and maybe more:
the engine that has the predicate applies it to what was found. So what has no translation is left
out, and the result never depends on it. `And` needs one side, `Or` both.
"""

from __future__ import annotations

import io
import json
import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

# A filter as `Collection.find` takes it; None for one that holds for everything.
Filter = dict[str, Any] | None

_OPERATORS = {"Gt": "$gt", "GtEq": "$gte", "Lt": "$lt", "LtEq": "$lte", "Eq": "$eq", "NotEq": "$ne"}
_SWAPPED = {"$gt": "$lt", "$gte": "$lte", "$lt": "$gt", "$lte": "$gte", "$eq": "$eq", "$ne": "$ne"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Columns:
    """The columns of a source: how filters find them, and how their values compare."""

    def __init__(self, source: Any) -> None:
        paths = source._paths()
        self._of = {name: (path, kind) for name, path, kind, _ in paths}
        self._casts = {name for name, _, kind, casts in paths if casts and kind == "timestamp"}
        self.may_be_misfit = source._has_nulls_for_misfits

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    def names(self) -> list[str]:
        """Returns the names of the columns that filters find."""
        return list(self._of)

    def kind(self, name: str) -> str:
        """Returns the type of a column; nothing for one that filters do not find."""
        return self._of[name][1] if name in self._of else ""

    def compare(self, name: str, operator: str, value: Any) -> Filter:
        """Returns the filter of a comparison of a column with a value of its type."""
        path, kind = self._of[name]
        found = {path: {operator: value}}
        # To polars and DuckDB a NaN is greater than all numbers.
        if kind == "float64" and operator in ("$gt", "$gte"):
            return {"$or": [found, {path: {"$eq": math.nan}}]}
        return found if operator == "$ne" else self._or_text(name, found)

    def one_of(self, name: str, values: list[Any]) -> Filter:
        """Returns the filter of `is_in`."""
        return self._or_text(name, {self._of[name][0]: {"$in": values}})

    def _or_text(self, name: str, found: dict[str, Any]) -> Filter:
        """Adds all text to what a filter finds in a column of timestamps that takes it."""
        text = {self._of[name][0]: {"$type": "text"}}
        return {"$or": [found, text]} if name in self._casts else found

    def prefix(self, name: str, prefix: str) -> Filter:
        """Returns the filter of `starts_with`."""
        return {self._of[name][0]: {"$prefix": prefix}}

    def is_null(self, name: str) -> Filter:
        """Returns the filter of `is_null`."""
        path, _ = self._of[name]
        # A key is never null. A value that does not fit is one that a filter does not see as null.
        if path == "$key" or self.may_be_misfit:
            return None
        return {"$or": [{path: None}, {path: {"$exists": False}}]}

    def is_not_null(self, name: str) -> Filter:
        """Returns the filter of `is_not_null`."""
        path, _ = self._of[name]
        return None if path == "$key" else {path: {"$exists": True}}


def both(left: Filter, right: Filter) -> Filter:
    """Returns the filter of documents that match both."""
    if left is None or right is None:
        return right if left is None else left
    return {"$and": [left, right]}


def either(left: Filter, right: Filter) -> Filter:
    """Returns the filter of documents that match one of them."""
    return None if left is None or right is None else {"$or": [left, right]}


def of_polars(predicate: Any, columns: Columns) -> Filter:
    """Returns the filter of an expression of polars, as far as it has one."""
    if not columns:
        return None
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
        return _Polars(columns).filter(tree)
    # The form is that of one version of polars. In another, nothing is pushed down.
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


class _Polars:
    """Translates the tree of an expression."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def filter(self, tree: Any) -> Filter:
        if not isinstance(tree, dict) or len(tree) != 1:
            return None
        [(node, of)] = tree.items()
        if node == "Column":
            return self._bool(of, True)
        if node == "Alias":
            return self.filter(of[0])
        if node == "BinaryExpr":
            return self._binary(of["left"], of["op"], of["right"])
        if node == "Function":
            return self._function(of["input"], of["function"])
        return None

    def _bool(self, name: str, value: bool) -> Filter:
        if self._columns.kind(name) != "bool":
            return None
        return self._columns.compare(name, "$eq", value)

    def _binary(self, left: Any, operator: str, right: Any) -> Filter:
        if operator in ("And", "LogicalAnd"):
            return both(self.filter(left), self.filter(right))
        if operator in ("Or", "LogicalOr"):
            return either(self.filter(left), self.filter(right))
        sign = _OPERATORS.get(operator)
        if sign is None:
            return None
        if "Column" in right:
            left, sign, right = right, _SWAPPED[sign], left
        name = left.get("Column")
        if name not in self._columns:
            return None
        value = self._literal(name, right)
        return None if value is None else self._columns.compare(name, sign, value)

    def _function(self, inputs: list[Any], function: Any) -> Filter:
        name = inputs[0].get("Column")
        if "Boolean" in function:
            function = function["Boolean"]
            if name not in self._columns:
                return None
            if function == "Not":
                return self._bool(name, False)
            if function == "IsNull":
                return self._columns.is_null(name)
            if function == "IsNotNull":
                return self._columns.is_not_null(name)
            if "IsBetween" in function:
                closed = function["IsBetween"]["closed"]
                return self._between(name, inputs[1], inputs[2], closed)
            if "IsIn" in function:
                return self._is_in(name, inputs[1], function["IsIn"])
        if function.get("StringExpr") == "StartsWith" and self._columns.kind(name) == "text":
            prefix = self._literal(name, inputs[1])
            return None if prefix is None else self._columns.prefix(name, prefix)
        return None

    def _between(self, name: str, low: Any, high: Any, closed: str) -> Filter:
        first, last = self._literal(name, low), self._literal(name, high)
        if first is None or last is None or closed not in ("Both", "Left", "Right", "None"):
            return None
        return both(
            self._columns.compare(name, "$gte" if closed in ("Both", "Left") else "$gt", first),
            self._columns.compare(name, "$lte" if closed in ("Both", "Right") else "$lt", last),
        )

    def _is_in(self, name: str, values: Any, options: Any) -> Filter:
        import polars

        if "Alias" in values:
            values = values["Alias"][0]
        scalar = values["Literal"]["Scalar"]
        series = polars.read_ipc_stream(io.BytesIO(bytes(scalar["List"]))).to_series()
        wanted = {"int64": polars.Int64, "float64": polars.Float64, "text": polars.String}
        if series.dtype != wanted.get(self._columns.kind(name)):
            return None
        if series.has_nulls() and options != {"nulls_equal": False}:
            return None
        found = [value for value in series.to_list() if value is not None]
        if any(isinstance(value, float) and not math.isfinite(value) for value in found):
            return None
        return self._columns.one_of(name, found)

    def _literal(self, name: str, tree: Any) -> Any:
        """Returns the value of a literal if it has the type of the column, else None."""
        scalar = tree["Literal"]["Scalar"]
        [(of, value)] = scalar.items()
        kind = self._columns.kind(name)
        same = {"Int64": "int64", "Float64": "float64", "String": "text", "Boolean": "bool"}
        # A float that is not finite comes as null.
        if same.get(of) == kind:
            return value
        if of == "Datetime" and kind == "timestamp":
            micros, unit, zone = value
            if unit == "Microseconds" and zone is not None:
                return _time(micros)
        if of == "Decimal" and kind.startswith("decimal("):
            digits, _, scale = value
            return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))
        return None


def _time(micros: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


__all__ = ["Columns", "of_polars"]
