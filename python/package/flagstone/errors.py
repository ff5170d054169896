"""The exceptions of flagstone: one class for each way in which a caller must react."""


class Error(Exception):
    """The base class of all exceptions of flagstone. The text says what was wrong, and where.

    >>> import flagstone
    >>> try:
    ...     flagstone.open("none", create=False)
    ... except flagstone.Error as error:
    ...     print(type(error).__name__)
    NotFound
    """


class InvalidInput(Error, ValueError):
    """An argument was wrong: correct it. Nothing was written."""


class Busy(Error):
    """A lock or memory that the call needs is in use: try again later."""


class Conflict(Error):
    """A condition of a commit did not hold: read again, and decide again. Nothing was written."""


class ConditionFailed(Error):
    """A condition of an update does not hold for the document. Nothing was written."""


class Duplicate(Error):
    """Another document has the value of a unique index. Nothing was written."""


class TooOld(Error):
    """The changes that were asked for are not kept any more."""


class Io(Error, OSError):
    """The operating system reported an error: the text names the file and the reason."""


class NotFound(Io, FileNotFoundError):
    """A file, a directory or a database is not there."""


class OutOfSpace(Error, OSError):
    """The disk is full: free some space. Writing then resumes by itself."""


class Poisoned(Error):
    """A sync failed, so what the disk holds is unknown: open the database again to write."""


class Corruption(Error):
    """Bytes on disk are not what was written: restore a backup, or repair."""


class Unavailable(Error):
    """The cluster cannot be reached, or too few of its nodes: nothing was written."""


class Unknown(Error):
    """A write to a cluster was not answered: it may have happened. Read, and decide again."""


class Unsupported(Error):
    """The files need a newer or differently built flagstone, or a cluster cannot do this."""


class Closed(Error):
    """The database was closed: open it again."""


class Forked(Closed):
    """This process was forked while its parent had a database open, and can use none."""


class Interrupted(Error):
    """An exception such as KeyboardInterrupt has ended an iteration: begin it anew."""


class InternalError(Error):
    """A call has failed because of a bug in flagstone. The database refuses all further calls."""


__all__ = [
    "Busy",
    "Closed",
    "ConditionFailed",
    "Conflict",
    "Corruption",
    "Duplicate",
    "Error",
    "Forked",
    "InternalError",
    "Interrupted",
    "InvalidInput",
    "Io",
    "NotFound",
    "OutOfSpace",
    "Poisoned",
    "TooOld",
    "Unavailable",
    "Unknown",
    "Unsupported",
]
