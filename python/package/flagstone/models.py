"""Documents as instances of classes: dataclasses, pydantic models, msgspec structs and others."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any


def build(cls: Any, value: Any) -> Any:
    """Returns an instance of the class from a decoded document, or from a part of one.

    A field of a dataclass that is a dataclass itself, or a list or dict of them, is built as well.
    Other values are taken as they are: a dataclass checks nothing. pydantic and msgspec check, and
    raise what they raise.

    >>> @dataclasses.dataclass
    ... class User:
    ...     name: str
    >>> build(User, {"name": "ada"})
    User(name='ada')
    """
    if hasattr(cls, "model_validate"):
        return cls.model_validate(value)
    if hasattr(cls, "__struct_fields__"):
        import msgspec  # of the caller, whose class it is

        return msgspec.convert(value, cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls, value)
    if isinstance(value, dict) and isinstance(cls, type) and not issubclass(cls, dict):
        return cls(**value)
    return cls(value)


def _dataclass(cls: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{cls.__name__}: expected a map, found {type(value).__name__}")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field.init for field in dataclasses.fields(cls)}
    unknown = sorted(value.keys() - fields.keys())
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}")
    parts = {name: _of_hint(hints.get(name), part) for name, part in value.items()}
    built = cls(**{name: part for name, part in parts.items() if fields[name]})
    for name, part in parts.items():
        if not fields[name]:
            # The constructor does not take it.
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


__all__ = ["build"]
