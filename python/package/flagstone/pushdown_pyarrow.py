"""Conditions of DuckDB, which come as expressions of pyarrow, as filters: see `pushdown`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from .pushdown import Columns, Filter, both, either

# The text of an expression of pyarrow, which has no other public form.
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z)"
    r"|(?P<int>-?\d+)(?![\w.:+-])"
    r"|(?P<float>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.:+-])"
    r'|"(?P<text>[^"\\]*)"'
    r"|(?P<other>" r'"(?:[^"\\]|\\.)*"' r"|-?\d[\w.:+-]*(?: \d[\w.:+-]*)?)"
    r"|(?P<sign>==|!=|>=|<=|[()><,{}=:\[\]]))"
)
_SIGNS = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "==": "$eq", "!=": "$ne"}
_COMPARE = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt,
    "$lte": operator.le, "$eq": operator.eq, "$ne": operator.ne,
}  # fmt: skip
# The texts of a set of values begin and end with these lines.
_SET = re.compile(r"\s*\{value_set=(\w[^\n]*):\[\n  (.*?)\n\], null_matching_behavior=MATCH\}", re.S)
_KINDS = {"int64": "int", "float64": "float", "text": "text", "bool": "name", "timestamp": "time"}


def of_pyarrow(expression: Any, columns: Columns) -> Filter:
    """Returns the filter of an expression of pyarrow, as far as it has one."""
    plain = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
    # The text does not quote names: with others it could be read in two ways.
    if not columns or not all(plain.fullmatch(name) for name in columns.names()):
        return None
    text = str(expression)
    try:
        # The text may round a number, leave out values or not quote a text. So what was read of it
        # is built again: it was read right if that gives an equal expression.
        found, built = _Pyarrow(text, columns, True).all()
        if built.equals(expression):
            return found
    except (ValueError, LookupError, TypeError, ImportError, ArithmeticError):
        pass
    try:
        return _Pyarrow(text, columns, False).all()[0]
    except (ValueError, LookupError):
        return None


class _Pyarrow:
    """Reads the text of an expression. `builds`: all of it must be understood, and is built again.
    Without it, what the text does not tell exactly is left out of the filter.
    """

    def __init__(self, text: str, columns: Columns, builds: bool) -> None:
        self._columns, self._builds = columns, builds
        self._sets: list[str] = []
        if builds:
            # A set has a token of its own: its texts are not quoted.
            text = _SET.sub(self._set_aside, text)
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

    def _set_aside(self, found: re.Match[str]) -> str:
        self._sets.append(found[2])
        return f" {len(self._sets) - 1}"

    def all(self) -> tuple[Filter, Any]:
        found = self._expression()
        if self._at != len(self._tokens):
            raise ValueError("more than an expression")
        return found

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if self._next()[1] != token:
                raise ValueError(f"expected {token}")

    def _expression(self) -> tuple[Filter, Any]:
        kind, token = self._next()
        if (kind, token) == ("sign", "("):
            if self._tokens[self._at][0] == "name" and self._tokens[self._at + 1][0] == "sign":
                following = self._tokens[self._at + 1][1]
                if following in _SIGNS:
                    return self._comparison()
            left, left_built = self._expression()
            word = self._next()
            right, right_built = self._expression()
            self._expect(")")
            if word == ("name", "and"):
                return both(left, right), self._built(lambda: left_built & right_built)
            if word == ("name", "or"):
                return either(left, right), self._built(lambda: left_built | right_built)
            raise ValueError(f"expected and, or; found {word[1]}")
        if kind == "name" and self._tokens[self._at : self._at + 1] == [("sign", "(")]:
            return self._exact_call(token) if self._builds else (self._call(token), None)
        if kind == "name" and self._columns.kind(token) == "bool":
            return self._columns.compare(token, "$eq", True), self._built(lambda: _field(token))
        raise ValueError(f"an expression that begins with {token}")

    def _built(self, build: Callable[[], Any]) -> Any:
        return build() if self._builds else None

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

    def _exact_call(self, function: str) -> tuple[Filter, Any]:
        self._expect("(")
        name = self._tokens[self._at][1]
        if function == "if_else":
            # `IN` of SQL: nothing is known of a null.
            self._expect("is_valid", "(")
            name = self._next()[1]
            self._expect(")", ",", "is_in", "(", name, ",")
            values = self._values(name, self._sets[int(self._next()[1])])
            self._expect(")", ",", "null", "[", "bool", "]", ")")
            return self._columns.one_of(name, values), _is_in(name, values, self._type(name))
        self._expect(name)
        if name not in self._columns:
            raise ValueError(f"a function of {name}")
        if function == "is_valid":
            self._expect(")")
            return self._columns.is_not_null(name), _field(name).is_valid()
        if function == "is_null":
            self._expect(",", "{", "nan_is_null", "=", "false", "}", ")")
            return self._columns.is_null(name), _field(name).is_null()
        raise ValueError(f"function {function}")

    def _values(self, name: str, text: str) -> list[Any]:
        """Returns the values of a set: each has a line. What a line of a text hides, the built
        expression shows.
        """
        lines, values = text.split(",\n  "), []
        for line in lines:
            if self._columns.kind(name) == "text":
                if len(line) < 2 or line[0] != '"' or line[-1] != '"':
                    raise ValueError(line)
                values.append(line[1:-1])
                continue
            match = _TOKEN.fullmatch(line)
            kind = match and match.lastgroup
            if match is None or kind is None:
                raise ValueError(line)
            values.append(self._value(name, kind, match[kind]))
        return values

    def _value(self, name: str, kind: str, token: str) -> Any:
        """Returns the value of a token if it has the type of the column."""
        wanted = _KINDS.get(self._columns.kind(name), "")
        if (kind, wanted) == ("int", "float"):
            kind = "float"
        if kind != wanted or kind == "name" and token not in ("true", "false"):
            raise ValueError(f"{token} for {name}")
        if kind == "int":
            return int(token)
        if kind == "float":
            return float(token)
        if kind == "time":
            return datetime.strptime(token, "%Y-%m-%d %H:%M:%S.%f%z")
        return token == "true" if kind == "name" else token

    def _type(self, name: str) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

        types = {"int64": pa.int64(), "float64": pa.float64(), "text": pa.string()}
        types.update({"bool": pa.bool_(), "timestamp": pa.timestamp("us", "UTC")})
        return types[self._columns.kind(name)]

    def _comparison(self) -> tuple[Filter, Any]:
        _, name = self._next()
        sign = _SIGNS[self._next()[1]]
        kind, token = self._next()
        self._expect(")")
        if not self._builds:
            if kind not in ("int", "text", "name"):
                return None, None
            try:
                if self._columns.kind(name) not in ("int64", "text", "bool"):
                    return None, None
                return self._columns.compare(name, sign, self._value(name, kind, token)), None
            except ValueError:
                return None, None
        import pyarrow as pa

        if kind == "other" and token.startswith('"'):
            kind, token = "text", re.sub(r"\\(.)", r"\1", token[1:-1])
        value = self._value(name, kind, token)
        built = _COMPARE[sign](_field(name), pa.scalar(value, self._type(name)))
        return self._columns.compare(name, sign, value), built


def _field(name: str) -> Any:
    from pyarrow import compute

    return compute.field(name)


def _is_in(name: str, values: list[Any], of: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute  # type: ignore[import-untyped, unused-ignore]

    # The module makes its functions when it is imported.
    compute: Any = pyarrow.compute
    is_in = _field(name).isin(pa.array(values, of))
    return compute.if_else(_field(name).is_valid(), is_in, pa.scalar(None, pa.bool_()))


__all__ = ["of_pyarrow"]
