"""ObjectIds: the identifiers that MongoDB drivers make for documents without an `_id`."""

from __future__ import annotations

import functools
from datetime import datetime, timezone
from typing import Any

from . import _flagstone


@functools.total_ordering
class ObjectId:
    """An identifier of 12 bytes: 4 of seconds since 1970, 5 random ones, 3 of a counter.

    Without an argument a new one is made; otherwise the argument is 24 hexadecimal digits, 12
    bytes, or another ObjectId, also one of the package `bson`. An ObjectId is equal to one of
    `bson` with the same bytes and has the same hash; documents take either.

    >>> id = ObjectId("5d422b800123456789abcdef")
    >>> id, str(id), id.generation_time.isoformat()
    (ObjectId('5d422b800123456789abcdef'), '5d422b800123456789abcdef', '2019-08-01T00:00:00+00:00')
    >>> ObjectId(id.binary) == id, ObjectId() == ObjectId()
    (True, False)
    """

    __slots__ = ("_bytes",)

    _bytes: bytes

    def __init__(self, id: Any = None) -> None:
        binary = _flagstone._new_object_id() if id is None else _bytes_of(id)
        object.__setattr__(self, "_bytes", binary)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an ObjectId cannot be changed")

    def __reduce__(self) -> tuple[type[ObjectId], tuple[bytes]]:
        return type(self), (self.binary,)

    @property
    def binary(self) -> bytes:
        """The 12 bytes."""
        return self._bytes

    @property
    def generation_time(self) -> datetime:
        """The time in the first four bytes."""
        return datetime.fromtimestamp(int.from_bytes(self.binary[:4], "big"), timezone.utc)

    def __str__(self) -> str:
        return self.binary.hex()

    def __repr__(self) -> str:
        return f"ObjectId('{self}')"

    def __bytes__(self) -> bytes:
        return self.binary

    def __hash__(self) -> int:
        return hash(self.binary)

    def __eq__(self, other: object) -> bool:
        binary = _binary(other)
        return NotImplemented if binary is None else self.binary == binary

    def __lt__(self, other: object) -> bool:
        binary = _binary(other)
        return NotImplemented if binary is None else self.binary < binary


def _binary(id: object) -> bytes | None:
    """Returns the bytes of an ObjectId of this package or of another."""
    binary = getattr(id, "binary", None) if type(id).__name__ == "ObjectId" else None
    return binary if isinstance(binary, bytes) and len(binary) == 12 else None


def _bytes_of(id: Any) -> bytes:
    binary = _binary(id)
    if binary is not None:
        return binary
    if isinstance(id, bytes) and len(id) == 12:
        return id
    if isinstance(id, str) and len(id) == 24:
        try:
            # fromhex skips spaces.
            binary = bytes.fromhex(id)
        except ValueError:
            binary = b""
        if len(binary) == 12:
            return binary
    if isinstance(id, (str, bytes)):
        raise ValueError(f"{id!r} is no ObjectId: expected 24 hexadecimal digits or 12 bytes")
    raise TypeError(f"{type(id).__qualname__} is no ObjectId: expected text, bytes or an ObjectId")


__all__ = ["ObjectId"]
