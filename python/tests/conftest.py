"""What all tests use: a database that is new for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import flagstone
import pytest
from hypothesis import HealthCheck, settings

# The seeds are always the same, so that a failure is one of the change under test.
settings.register_profile(
    "flagstone",
    derandomize="FLAGSTONE_SEED" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("flagstone")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[flagstone.Database]:
    with flagstone.open(tmp_path / "db", memory="64MiB") as database:
        yield database


@pytest.fixture
def kv(db: flagstone.Database) -> flagstone.Keyspace:
    return db.keyspace("kv")
