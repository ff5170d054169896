"""Views of the keys, values and pairs of a mapping, or of a range of its keys."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Scanned(Protocol):
    def _scan(
        self, part: str, start: Any, end: Any, prefix: Any, reverse: bool, /
    ) -> Iterator[Any]: ...


class _Range(Generic[K]):
    """A range of the keys of a mapping. Each iteration sees the mapping as of its beginning."""

    _part = "keys"
    _mapping: Any

    def __init__(
        self,
        mapping: Any,
        start: K | None = None,
        end: K | None = None,
        prefix: K | None = None,
        reverse: bool = False,
    ) -> None:
        self._mapping = mapping
        self._start, self._end, self._prefix, self._reverse = start, end, prefix, reverse

    @property
    def _is_whole(self) -> bool:
        return self._start is None and self._end is None and self._prefix is None

    def _iterate(self, part: str, reverse: bool) -> Iterator[Any]:
        mapping: _Scanned = self._mapping
        return mapping._scan(part, self._start, self._end, self._prefix, reverse)

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(self._part, self._reverse)

    def __reversed__(self) -> Iterator[Any]:
        return self._iterate(self._part, not self._reverse)

    def __len__(self) -> int:
        if self._is_whole:
            return len(self._mapping)
        return sum(1 for _ in self._iterate("keys", False))

    def __bool__(self) -> bool:
        return next(self._iterate("keys", False), None) is not None

    def __repr__(self) -> str:
        words = [repr(self._mapping)]
        for name in ("start", "end", "prefix", "reverse"):
            value = getattr(self, f"_{name}")
            if value is not None and value is not False:
                words.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"

    def _holds(self, key: Any) -> bool:
        """Whether the range has a place for the key, which may or may not be there."""
        return self._is_whole or bool(
            self._mapping._holds(key, self._start, self._end, self._prefix)
        )


class KeysOfRange(_Range[K], KeysView[K]):
    """The keys, in their order: a set, as the keys of a `dict`.

    >>> import flagstone
    >>> with flagstone.open("keys") as db:
    ...     c = db.collection("c")
    ...     c.update({"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}})
    ...     print(sorted(c.keys("b") & {"a", "b"}), len(c.keys("b")), "a" in c.keys("b"))
    ['b'] 2 False
    """

    _part = "keys"

    @classmethod
    def _from_iterable(cls, it: Any) -> set[Any]:
        return set(it)

    def __contains__(self, key: object) -> bool:
        return key in self._mapping and self._holds(key)


class ValuesOfRange(_Range[Any], ValuesView[V]):
    """The values, in the order of their keys.

    >>> import flagstone
    >>> with flagstone.open("values") as db:
    ...     c = db.collection("c")
    ...     c.update({"a": {"n": 1}, "b": {"n": 2}})
    ...     [doc["n"] for doc in reversed(c.values())]
    [2, 1]
    """

    _part = "values"

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class ItemsOfRange(_Range[K], ItemsView[K, V]):
    """The pairs of a key and its value, in the order of the keys.

    >>> import flagstone
    >>> with flagstone.open("items") as db:
    ...     kv = db.keyspace("kv")
    ...     kv.update({b"a": b"1", b"b": b"2"})
    ...     dict(kv.items(b"b"))
    {b'b': b'2'}
    """

    _part = "items"

    @classmethod
    def _from_iterable(cls, it: Any) -> set[Any]:
        return set(it)

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        key, value = item
        try:
            found = self._mapping[key]
        except KeyError:
            return False
        return bool(found == value) and self._holds(key)


__all__ = ["ItemsOfRange", "KeysOfRange", "ValuesOfRange"]
