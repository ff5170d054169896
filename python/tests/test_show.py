"""What a notebook shows of a collection never raises."""

from __future__ import annotations

import datetime
import math
from typing import Any

import flagstone
import pytest


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"x": math.nan}, "nan"),
        ({"in": {"x": math.inf}}, "{&quot;x&quot;:{&quot;$numberDouble&quot;:&quot;Infinity&quot;}}"),
        ({"in": {1: "one"}}, "{1: &#x27;one&#x27;}"),
        ({1: "one", (2, "b"): None}, "one"),
        ({"b": b"\xff", "at": datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)}, "xff"),
        ({"<b>": "<i>"}, "&lt;i&gt;"),
        ([math.nan, {1: 2}], "[nan, {1: 2}]"),
        (math.nan, "nan"),
    ],
)
def test_all_values_are_shown(document: Any, shown: str, c: flagstone.Collection) -> None:
    c["a"] = document
    for of in (c, c.find()):
        assert shown in of._repr_html_()


def test_what_cannot_be_read_is_told(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"] = {"x": 1}
    find = c.find()
    db.close()
    assert "Closed: " in c._repr_html_() and "Closed: " in find._repr_html_()


def test_a_datetime_that_python_does_not_have(c: flagstone.Collection) -> None:
    pa = pytest.importorskip("pyarrow")
    late = pa.array([10**18], pa.timestamp("us", "UTC"))
    c.load_arrow(pa.table({"id": ["a"], "l": pa.array([[10**18]], pa.list_(late.type)), "at": late}))
    c.load_arrow(pa.table({"id": late, "n": [1]}))
    assert "datetime beyond" in c._repr_html_()
    calls: list[tuple[Any, str]] = [
        (lambda: c["a"]["at"], r"^\$\.at: a datetime beyond"),
        (lambda: c["a"].to_dict(), r"^\$\.(l\[0\]|at): a datetime beyond"),
        (lambda: c.get("a", path="l"), r"^\$\[0\]: a datetime beyond"),
        (lambda: list(c), "^the key: a datetime beyond"),
    ]
    for call, text in calls:
        with pytest.raises(flagstone.InvalidInput, match=text):
            call()


@pytest.mark.parametrize(("year", "hours"), [(1, 14), (9999, -12)])
def test_a_datetime_beyond_the_years_of_utc_is_refused(
    year: int, hours: int, c: flagstone.Collection
) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    at = datetime.datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, 12, tzinfo=zone)
    with pytest.raises(TypeError, match=r"\$\.in\[0\]: a datetime that in UTC is beyond"):
        c["a"] = {"in": [at]}
    with pytest.raises(TypeError, match="the key: a datetime"):
        c[at] = {}
    assert not c
    edge = at.replace(tzinfo=datetime.timezone.utc)
    c["a"] = {"at": edge}
    assert c["a"]["at"] == edge
