"""Lists and dicts in documents. Those of a transaction write their changes there, others refuse
changes, which would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol


class _Part(Protocol):
    def replace(self, value: Any) -> None: ...


def tracked(value: Any, above: Any) -> Any:
    """Returns a list or a dict as one that tells `above` its changes: the part of the document that
    it is, or the list or dict that it is in.
    """
    if isinstance(value, list):
        return List(value, above)
    if isinstance(value, dict):
        return Dict(value, above)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, List):
        return [_plain(item) for item in value]
    if isinstance(value, Dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _save(changed: List | Dict) -> None:
    """Writes the part of the document in which something was changed."""
    above: Any = changed
    while isinstance(above, (List, Dict)):
        changed, above = above, above._above
    above.replace(changed)


def _of_list(name: str) -> Any:
    def method(self: List, *given: Any, **named: Any) -> Any:
        items = list(self)
        returned = getattr(items, name)(*given, **named)
        self._become(items)
        return self if returned is items else returned

    return _named(method, getattr(list, name))


def _of_dict(name: str) -> Any:
    def method(self: Dict, *given: Any, **named: Any) -> Any:
        items = dict(self)
        returned = getattr(items, name)(*given, **named)
        self._become(items)
        if name == "setdefault":
            return self[given[0]]
        return self if returned is items else returned

    return _named(method, getattr(dict, name))


def _named(method: Callable[..., Any], like: Any) -> Any:
    method.__name__, method.__doc__ = like.__name__, like.__doc__
    return method


class List(list[Any]):
    """A list in a document of a transaction. A change is written to the transaction, or raises and
    changes nothing. Lists and dicts that are put into it are copied, as by an assignment to a field.
    """

    __slots__ = ("_above",)
    _above: _Part | List | Dict

    def __init__(self, items: Any, above: Any) -> None:
        super().__init__(tracked(item, self) for item in items)
        self._above = above

    def _become(self, items: list[Any]) -> None:
        before = list(self)
        mine = [item if _is_in(item, self) else tracked(item, self) for item in items]
        super().__setitem__(slice(None), mine)
        try:
            _save(self)
        except BaseException:
            super().__setitem__(slice(None), before)
            raise

    def __reduce__(self) -> Any:
        return list, (_plain(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    append = _of_list("append")
    clear = _of_list("clear")
    extend = _of_list("extend")
    insert = _of_list("insert")
    pop = _of_list("pop")
    remove = _of_list("remove")
    reverse = _of_list("reverse")
    sort = _of_list("sort")
    __setitem__ = _of_list("__setitem__")
    __delitem__ = _of_list("__delitem__")
    __iadd__ = _of_list("__iadd__")
    __imul__ = _of_list("__imul__")


class Dict(dict[Any, Any]):
    """A map in a list of a document of a transaction, or one whose keys are not all names. As for
    `List`, a change is written to the transaction, or raises and changes nothing.
    """

    __slots__ = ("_above",)
    _above: _Part | List | Dict

    def __init__(self, items: Mapping[Any, Any], above: Any) -> None:
        super().__init__({name: tracked(item, self) for name, item in items.items()})
        self._above = above

    def _become(self, items: dict[Any, Any]) -> None:
        before = dict(self)
        mine = {
            name: item if _is_in(item, self) else tracked(item, self)
            for name, item in items.items()
        }
        super().clear()
        super().update(mine)
        try:
            _save(self)
        except BaseException:
            super().clear()
            super().update(before)
            raise

    def __reduce__(self) -> Any:
        return dict, (_plain(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    clear = _of_dict("clear")
    pop = _of_dict("pop")
    popitem = _of_dict("popitem")
    setdefault = _of_dict("setdefault")
    update = _of_dict("update")
    __setitem__ = _of_dict("__setitem__")
    __delitem__ = _of_dict("__delitem__")
    __ior__ = _of_dict("__ior__")


def _is_in(item: Any, above: Any) -> bool:
    return isinstance(item, (List, Dict)) and item._above is above


def _refused(of: type[Any], name: str) -> Any:
    def method(self: Any, *given: Any, **named: Any) -> NoReturn:
        raise TypeError(
            f"a {of.__name__} in a Document does not change: use Collection.update, or change a "
            f"copy, {of.__name__}(..), and set the whole document"
        )

    return _named(method, getattr(of, name))


class StoredList(list[Any]):
    """A list in a document, which refuses changes. Its copies and slices are lists as any other.

    >>> import flagstone
    >>> with flagstone.open("stored") as db:
    ...     c = db.collection("c")
    ...     c["a"] = {"tags": ["p"]}
    ...     try:
    ...         c["a"]["tags"].append("q")
    ...     except TypeError as error:
    ...         print(str(error).partition(":")[0])
    a list in a Document does not change
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    append = _refused(list, "append")
    clear = _refused(list, "clear")
    extend = _refused(list, "extend")
    insert = _refused(list, "insert")
    pop = _refused(list, "pop")
    remove = _refused(list, "remove")
    reverse = _refused(list, "reverse")
    sort = _refused(list, "sort")
    __setitem__ = _refused(list, "__setitem__")
    __delitem__ = _refused(list, "__delitem__")
    __iadd__ = _refused(list, "__iadd__")
    __imul__ = _refused(list, "__imul__")


class StoredDict(dict[Any, Any]):
    """A map in a list of a document, or one whose keys are not all names. It refuses changes."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    clear = _refused(dict, "clear")
    pop = _refused(dict, "pop")
    popitem = _refused(dict, "popitem")
    setdefault = _refused(dict, "setdefault")
    update = _refused(dict, "update")
    __setitem__ = _refused(dict, "__setitem__")
    __delitem__ = _refused(dict, "__delitem__")
    __ior__ = _refused(dict, "__ior__")


__all__ = ["Dict", "List", "StoredDict", "StoredList", "tracked"]
