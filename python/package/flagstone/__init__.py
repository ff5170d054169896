"""An embedded storage engine for keys, values and documents.

>>> import flagstone
>>> with flagstone.open("data") as db:
...     kv = db.keyspace("sessions")
...     kv[b"alice"] = b"1"
...     print(list(kv.items(prefix=b"al")))
...     c = db.collection("comments")
...     c["evn2i5p"] = {"author": "x", "score": 1}
...     print([doc["author"] for key, doc in c.find({"score": {"$gte": 1}})])
[(b'alice', b'1')]
['x']
"""

import atexit as _atexit
import os as _os
from collections.abc import Mapping as _Mapping
from collections.abc import MutableMapping as _MutableMapping

from . import _flagstone
from ._flagstone import (
    ArrowBatch,
    ArrowBatches,
    ArrowSource,
    Batch,
    Change,
    Changes,
    Collection,
    Database,
    Document,
    Find,
    Keyspace,
    Rows,
    Scan,
    Snapshot,
    Transaction,
    open,
)
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
    Interrupted,
    InvalidInput,
    Io,
    NotFound,
    OutOfSpace,
    Poisoned,
    TooOld,
    Unavailable,
    Unknown,
    Unsupported,
)

from .frames import connect, explain_scan, scan
from .objectid import ObjectId

_MutableMapping.register(Keyspace)  # pyright: ignore[reportAttributeAccessIssue]
_MutableMapping.register(Collection)  # pyright: ignore[reportAttributeAccessIssue]
_Mapping.register(Document)  # pyright: ignore[reportAttributeAccessIssue]
_atexit.register(_flagstone._close_all)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_flagstone._after_fork)

__version__ = "0.1.0"

__all__ = [
    "ArrowBatch",
    "ArrowBatches",
    "ArrowSource",
    "Batch",
    "Busy",
    "Change",
    "Changes",
    "Closed",
    "Collection",
    "ConditionFailed",
    "Conflict",
    "Corruption",
    "Database",
    "Document",
    "Duplicate",
    "Error",
    "Find",
    "Forked",
    "InternalError",
    "Interrupted",
    "InvalidInput",
    "Io",
    "Keyspace",
    "NotFound",
    "ObjectId",
    "OutOfSpace",
    "Poisoned",
    "Rows",
    "Scan",
    "Snapshot",
    "TooOld",
    "Transaction",
    "Unavailable",
    "Unknown",
    "Unsupported",
    "connect",
    "explain_scan",
    "open",
    "scan",
]
