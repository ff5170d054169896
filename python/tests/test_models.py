"""Models of pydantic and structs of msgspec go in and come out."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Optional

import flagstone
import msgspec
import pydantic
import pytest

AT = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)


class Vote(pydantic.BaseModel):
    by: str
    weight: float = 1.0


class Post(pydantic.BaseModel):
    title: str
    votes: list[Vote]
    at: datetime.datetime
    price: Decimal = Decimal("1.10")
    best: Optional[Vote] = None


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Line(msgspec.Struct):
    name: str
    points: list[Point]
    end: Optional[Point] = None


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def test_models_of_pydantic(c: flagstone.Collection) -> None:
    post = Post(title="t", votes=[Vote(by="a"), Vote(by="b", weight=0.5)], at=AT)
    c["p"] = post
    assert c["p"] == post.model_dump()
    assert c["p"]["at"] == AT and c["p"]["price"] == Decimal("1.10")
    assert c.get("p", type=Post) == post
    assert c.get("p", path="$.votes[1]", type=Vote) == Vote(by="b", weight=0.5)
    assert c.get("none", type=Post) is None
    assert c.get("p", path="best.none", type=Vote) is None
    assert c.get("p", "default", path="none", type=Vote) == "default"
    c.update("p", set={"best": Vote(by="c")})
    best = c.get("p", type=Post)
    assert best is not None and best.best == Vote(by="c")
    c["wrong"] = {"title": 1, "votes": [], "at": AT}
    with pytest.raises(pydantic.ValidationError, match="title"):
        c.get("wrong", type=Post)
    assert [Post.model_validate(doc.to_dict()).title for doc in c.find({"title": "t"}).values()] == [
        "t"
    ]


def test_structs_of_msgspec(c: flagstone.Collection) -> None:
    line = Line("l", [Point(1, 2), Point(3)], end=Point(2**70))
    c["l"] = line
    assert c["l"] == msgspec.to_builtins(line)
    assert c.get("l", type=Line) == line
    assert c.get("l", path="$.points[0]", type=Point) == Point(1, 2)
    assert c.get("none", type=Line) is None
    c["wrong"] = {"name": "l", "points": [{"x": "one"}]}
    with pytest.raises(msgspec.ValidationError, match="points"):
        c.get("wrong", type=Line)
