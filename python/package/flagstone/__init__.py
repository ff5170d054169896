"""An embedded storage engine for keys, values and documents.

>>> import flagstone
>>> with flagstone.open("data") as db:
...     kv = db.keyspace("sessions")
...     kv[b"alice"] = b"1"
...     list(kv.items(prefix=b"al"))
[(b'alice', b'1')]
"""

import atexit as _atexit
import os as _os
from collections.abc import MutableMapping as _MutableMapping

from . import _flagstone
from ._flagstone import Database, Keyspace, Scan, open
from .errors import (
    Busy,
    Closed,
    ConditionFailed,
    Conflict,
    Corruption,
    Duplicate,
    Error,
    Forked,
    InternalError,
    InvalidInput,
    Io,
    OutOfSpace,
    Poisoned,
    TooOld,
    Unsupported,
)

_MutableMapping.register(Keyspace)
_atexit.register(_flagstone._close_all)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_flagstone._after_fork)

__version__ = "0.1.0"

__all__ = [
    "Busy",
    "Closed",
    "ConditionFailed",
    "Conflict",
    "Corruption",
    "Database",
    "Duplicate",
    "Error",
    "Forked",
    "InternalError",
    "InvalidInput",
    "Io",
    "Keyspace",
    "OutOfSpace",
    "Poisoned",
    "Scan",
    "TooOld",
    "Unsupported",
    "open",
]
