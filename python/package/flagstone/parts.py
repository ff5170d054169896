"""Parts of documents of a transaction that cannot be changed in place."""

from __future__ import annotations

from typing import Any, NoReturn


def fixed(value: Any) -> Any:
    """Returns the same lists and dicts, which refuse changes: `tx[c]["a"]["tags"].append("b")` would
    change a copy, and write nothing.
    """
    if isinstance(value, list):
        return FixedList(map(fixed, value))
    if isinstance(value, dict):
        return FixedDict((key, fixed(part)) for key, part in value.items())
    return value


def _refuse(self: Any, *arguments: Any, **named: Any) -> NoReturn:
    raise TypeError(
        "an array of a document does not change in place: set the field, as in "
        'doc["tags"] = [*doc["tags"], "new"], or use Collection.update(key, push={"tags": "new"})'
    )


class FixedList(list[Any]):
    """A list that is equal to others, and refuses changes."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __setitem__ = __delitem__ = _refuse

    def __iadd__(self, other: Any) -> Any:
        # What `doc["tags"] += [..]` stores.
        return [*self, *other]

    def __imul__(self, count: Any) -> Any:
        return list(self) * count

    def __reduce__(self) -> Any:
        # A copy is a list.
        return list, (list(self),)


class FixedDict(dict[Any, Any]):
    """A dict that is equal to others, and refuses changes."""

    clear = pop = popitem = setdefault = update = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> Any:
        # A copy is a dict.
        return dict, (dict(self),)


__all__ = ["fixed"]
