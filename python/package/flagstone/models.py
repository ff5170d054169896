"""Instances of classes as documents, and back: dataclasses, pydantic models, msgspec structs."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import ipaddress
import math
import pathlib
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

from .objectid import ObjectId

# What documents have natively, beside what JSON has.
_NATIVE = (bytes, bytearray, datetime.datetime, uuid.UUID, decimal.Decimal, ObjectId)

# What pydantic writes as text that it reads again.
_TEXTS = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    pathlib.PurePath,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def dump(model: Any) -> Any:
    """Returns what a model of pydantic or a struct of msgspec consists of.

    Fields have the names that the class gives them outside of Python, such as aliases, if it reads
    these again. What documents have natively stays what it is: bytes, datetimes, decimals, UUIDs,
    ObjectIds.
    Of other values msgspec and pydantic say the form: dates and times are text, members of an
    `Enum` are their values, sets are lists.
    """
    if hasattr(model, "__struct_fields__"):
        import msgspec  # of the caller, whose class it is

        return msgspec.to_builtins(model, builtin_types=_NATIVE, enc_hook=_in_struct)
    cls: Any = type(model)
    if not hasattr(cls, "model_fields"):
        return model.model_dump()
    return _with_form(model.model_dump(by_alias=_reads_aliases(cls)))


def _in_struct(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return dump(value)
    raise TypeError(f"{type(value).__qualname__} is not supported in a struct of msgspec")


def _with_form(value: Any) -> Any:
    """Returns what pydantic has dumped with values that documents have. Unsupported values stay,
    so that the error names their path.
    """
    if isinstance(value, dict):
        return {_with_form(name): _with_form(part) for name, part in value.items()}
    if isinstance(value, enum.Enum):
        return _with_form(value.value)
    if isinstance(value, tuple):
        return tuple(_with_form(item) for item in value)
    if isinstance(value, (list, set, frozenset, collections.deque)):
        return [_with_form(item) for item in value]
    if isinstance(value, _NATIVE):
        return value
    if isinstance(value, _TEXTS):
        if isinstance(value, pathlib.PurePath):
            return str(value)
        import pydantic_core

        return pydantic_core.to_jsonable_python(value)
    # The URLs of pydantic.
    if type(value).__module__.startswith("pydantic") and type(value).__name__.endswith("Url"):
        return str(value)
    return value


@functools.lru_cache(maxsize=1024)
def _reads_aliases(cls: Any) -> bool:
    """Returns whether the class, and those in its fields, read all aliases that they write."""
    return all(
        _key(name, field) in _keys(name, field)
        for model in _models(cls, set())
        for name, field in model.model_fields.items()
    )


def _key(name: str, field: Any) -> str:
    return str(field.serialization_alias or name)


def _keys(name: str, field: Any) -> list[str]:
    """Returns under which keys a field is read, if names are taken, too."""
    alias = field.validation_alias
    choices = getattr(alias, "choices", [alias])
    return [name, *(choice for choice in choices if isinstance(choice, str))]


def _models(hint: Any, seen: set[Any]) -> Iterator[Any]:
    """Returns the models of pydantic in a type."""
    if hasattr(hint, "model_fields"):
        if hint not in seen:
            seen.add(hint)
            yield hint
            for field in hint.model_fields.values():
                yield from _models(field.annotation, seen)
        return
    for argument in typing.get_args(hint):
        yield from _models(argument, seen)


def build(cls: Any, value: Any) -> Any:
    """Returns an instance of the class from a decoded document, or from a part of one.

    A field of a dataclass that is a dataclass itself, or a list or dict of them, is built as well.
    Other values are taken as they are: a dataclass checks nothing. pydantic and msgspec check, and
    raise what they raise. Types of Python such as ``int`` or ``list[str]`` are checked, too:
    nothing is parsed or rounded, but a ``Decimal`` may become a ``float``, and a list a tuple or
    set.

    >>> @dataclasses.dataclass
    ... class User:
    ...     name: str
    >>> build(User, {"name": "ada"})
    User(name='ada')
    >>> build(int, 41.9)
    Traceback (most recent call last):
    TypeError: type: expected int, found float 41.9
    """
    if hasattr(cls, "model_validate"):
        return _validated(cls, value)
    if hasattr(cls, "__struct_fields__") or _is_union_of_structs(cls):
        import msgspec  # of the caller, whose class it is

        return msgspec.convert(value, cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls, value)
    origin = typing.get_origin(cls)
    if cls is Any or cls is None or (origin or cls) in _PLAIN or origin in _FORMS:
        return _plain(cls, value)
    if isinstance(value, dict) and isinstance(cls, type) and not issubclass(cls, dict):
        return cls(**value)
    if not callable(cls):
        raise TypeError(f"type: expected a class or a function, found {cls!r}")
    return cls(value)


# What documents have, and what their arrays can become.
_PLAIN = (
    *(bool, int, float, str, bytes, list, dict, tuple, set, frozenset, type(None)),
    *(datetime.datetime, uuid.UUID, decimal.Decimal, ObjectId),
)


_FORMS = (typing.Union, types.UnionType, typing.Annotated, typing.Literal)


def _plain(cls: Any, value: Any) -> Any:
    """Returns the value as one of a type of Python, whose constructor would take too much."""
    if cls is Any:
        return value
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin in (typing.Union, types.UnionType):
        return _first_of(arguments, value)
    if origin is typing.Annotated:
        return build(arguments[0], value)
    if origin is typing.Literal:
        if any(type(value) is type(each) and value == each for each in arguments):
            return value
        raise _other(cls, value)
    plain: Any = type(None) if cls is None else origin or cls
    found = _as(plain, value)
    if not arguments:
        return found
    if plain is dict:
        return {build(arguments[0], name): build(arguments[1], v) for name, v in found.items()}
    if plain is tuple and arguments[-1] is not Ellipsis:
        if len(found) != len(arguments):
            raise _other(cls, value)
        return tuple(build(*pair) for pair in zip(arguments, found, strict=True))
    return plain(build(arguments[0], item) for item in found)


def _first_of(choices: tuple[Any, ...], value: Any) -> Any:
    """Returns the value as the first of the types that takes it."""
    failed: Exception | None = None
    # What needs no conversion comes first: 1.5 is a float, not a text that looks like one.
    for each in sorted(choices, key=lambda each: type(value) is not each):
        try:
            return build(type(None) if each is None else each, value)
        except (TypeError, ValueError) as error:
            failed = failed or error
    if failed is not None and len(choices) - (type(None) in choices) == 1:
        raise failed
    names = " or ".join(getattr(each, "__name__", str(each)) for each in choices)
    raise TypeError(f"type: expected {names}, found {_shown(value)}") from failed


def _as(cls: Any, value: Any) -> Any:
    if isinstance(value, cls) and (cls is bool or not isinstance(value, bool)):
        return value
    if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool):
        if cls is decimal.Decimal:
            return decimal.Decimal(repr(value))
        if cls is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if cls is float:
            try:
                number = float(value)
            except OverflowError:
                raise _other(cls, value) from None
            is_same = number == value or isinstance(value, decimal.Decimal)
            if is_same and math.isfinite(number):
                return number
    if cls in (tuple, set, frozenset) and isinstance(value, list):
        return cls(value)
    raise _other(cls, value)


def _other(cls: Any, value: Any) -> TypeError:
    name = cls.__name__ if isinstance(cls, type) else str(cls)
    return TypeError(f"type: expected {name}, found {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, (bool, int, float, str, decimal.Decimal)):
        text = repr(value)
        return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
    return {"NoneType": "None", "dict": "a map", "list": "an array"}.get(
        type(value).__name__, type(value).__name__
    )


def _validated(cls: Any, value: Any) -> Any:
    if not hasattr(cls, "model_fields") or not _takes_names():
        return cls.model_validate(value)
    return cls.model_validate(value, by_alias=True, by_name=True)


@functools.cache
def _takes_names() -> bool:
    import pydantic

    return tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 11)


def _is_union_of_structs(cls: Any) -> bool:
    is_union = typing.get_origin(cls) in (typing.Union, types.UnionType)
    return is_union and any(hasattr(each, "__struct_fields__") for each in typing.get_args(cls))


def _dataclass(cls: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{cls.__name__}: expected a map, found {type(value).__name__}")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(str(name) for name in value.keys() - fields.keys())
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}")
    parts = {name: _of_hint(hints.get(name), part) for name, part in value.items()}
    built = cls(**{name: part for name, part in parts.items() if fields[name].init})
    for name, part in parts.items():
        if not fields[name].init:
            # A frozen one lets nobody else set what its constructor does not take.
            object.__setattr__(built, name, part)
    return built


def _of_hint(hint: Any, value: Any) -> Any:
    if hint is None or value is None:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # One class and None: without a tag nothing else can be told apart.
        classes = [each for each in arguments if each is not type(None)]
        return _of_hint(classes[0], value) if len(classes) == 1 else value
    if origin is list and isinstance(value, list):
        return [_of_hint(arguments[0], item) for item in value]
    if origin is tuple and isinstance(value, list):
        hints = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_of_hint(*pair) for pair in zip(hints, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {name: _of_hint(arguments[1], part) for name, part in value.items()}
    if isinstance(hint, type) and (
        dataclasses.is_dataclass(hint)
        or hasattr(hint, "model_validate")
        or hasattr(hint, "__struct_fields__")
    ):
        return build(hint, value)
    return value


__all__ = ["build", "dump"]
