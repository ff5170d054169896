"""Predicates of polars and DuckDB as filters.

A filter that is pushed down finds every document of which the predicate may hold, and maybe more:
the engine that has the predicate applies it to what was found. So what has no translation is left
out, and the result never depends on it. `And` needs one side, `Or` both.
"""

from __future__ import annotations

import io
import json
import math
import re
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
        self._of = {name: (path, kind) for name, path, kind in source._paths()}
        self.may_be_misfit = source._has_nulls_for_misfits

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __bool__(self) -> bool:
        return bool(self._of)

    def names(self) -> list[str]:
        return list(self._of)

    def kind(self, name: str) -> str:
        return self._of[name][1] if name in self._of else ""

    def compare(self, name: str, operator: str, value: Any) -> Filter:
        """Returns the filter of a comparison of a column with a value of its type."""
        path, kind = self._of[name]
        found = {path: {operator: value}}
        # To polars and DuckDB a NaN is greater than all numbers.
        if kind == "float64" and operator in ("$gt", "$gte"):
            return {"$or": [found, {path: {"$eq": math.nan}}]}
        return found

    def one_of(self, name: str, values: list[Any]) -> Filter:
        return {self._of[name][0]: {"$in": values}}

    def prefix(self, name: str, prefix: str) -> Filter:
        return {self._of[name][0]: {"$prefix": prefix}}

    def is_null(self, name: str) -> Filter:
        path, _ = self._of[name]
        # A key is never null. A value that does not fit is one that a filter does not see as null.
        if path == "$key" or self.may_be_misfit:
            return None
        return {"$or": [{path: None}, {path: {"$exists": False}}]}

    def is_not_null(self, name: str) -> Filter:
        path, _ = self._of[name]
        return None if path == "$key" else {path: {"$exists": True}}


def both(left: Filter, right: Filter) -> Filter:
    if left is None or right is None:
        return right if left is None else left
    return {"$and": [left, right]}


def either(left: Filter, right: Filter) -> Filter:
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
            if function == "Not" and name in self._columns:
                return self._bool(name, False)
            if name not in self._columns:
                return None
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


# The text of an expression of pyarrow, which has no other public form. What its text may have
# rounded or escaped is `other`: floats, times, strings with a backslash.
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<int>-?\d+)(?![\w.:+-])"
    r'|"(?P<text>[^"\\]*)"'
    r"|(?P<other>" r'"(?:[^"\\]|\\.)*"' r"|-?\d[\w.:+-]*(?: \d[\w.:+-]*)?)"
    r"|(?P<sign>==|!=|>=|<=|[()><,{}=:\[\]]))"
)
_SIGNS = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "==": "$eq", "!=": "$ne"}


def of_pyarrow(expression: Any, columns: Columns) -> Filter:
    """Returns the filter of an expression of pyarrow, as far as it has one."""
    plain = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
    # The text does not quote names: with others it could be read in two ways.
    if not columns or not all(plain.fullmatch(name) for name in columns.names()):
        return None
    try:
        return _Pyarrow(str(expression), columns).all()
    except (ValueError, LookupError):
        return None


class _Pyarrow:
    """Reads the text of an expression."""

    def __init__(self, text: str, columns: Columns) -> None:
        self._columns = columns
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(text)
            at = match.end()
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
        self._at = 0

    def all(self) -> Filter:
        found = self._expression()
        if self._at != len(self._tokens):
            raise ValueError("more than an expression")
        return found

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._next() != ("sign", sign):
            raise ValueError(f"expected {sign}")

    def _expression(self) -> Filter:
        kind, token = self._next()
        if (kind, token) == ("sign", "("):
            if self._tokens[self._at][0] == "name" and self._tokens[self._at + 1][0] == "sign":
                following = self._tokens[self._at + 1][1]
                if following in _SIGNS:
                    return self._comparison()
            left = self._expression()
            word = self._next()
            right = self._expression()
            self._expect(")")
            if word == ("name", "and"):
                return both(left, right)
            if word == ("name", "or"):
                return either(left, right)
            raise ValueError(f"expected and, or; found {word[1]}")
        if kind == "name" and self._tokens[self._at] == ("sign", "("):
            return self._call(token)
        if kind == "name" and self._columns.kind(token) == "bool":
            return self._columns.compare(token, "$eq", True)
        raise ValueError(f"an expression that begins with {token}")

    def _call(self, function: str) -> Filter:
        """Reads the arguments of a function, and returns the filter of those that have one."""
        kind, name = self._tokens[self._at + 1]
        depth, counts_nan = 0, False
        while True:
            token = self._next()
            counts_nan |= token == ("name", "true")
            depth += (token == ("sign", "(")) - (token == ("sign", ")"))
            if depth == 0:
                break
        if kind != "name" or name not in self._columns:
            return None
        if function == "is_valid":
            return self._columns.is_not_null(name)
        is_null = function == "is_null" and not counts_nan
        return self._columns.is_null(name) if is_null else None

    def _comparison(self) -> Filter:
        _, name = self._next()
        sign = _SIGNS[self._next()[1]]
        kind, token = self._next()
        self._expect(")")
        column = self._columns.kind(name)
        if (kind, column) == ("int", "int64"):
            return self._columns.compare(name, sign, int(token))
        if (kind, column) == ("text", "text"):
            return self._columns.compare(name, sign, token)
        if (kind, column) == ("name", "bool") and token in ("true", "false"):
            return self._columns.compare(name, sign, token == "true")
        return None


__all__ = ["Columns", "of_polars", "of_pyarrow"]
