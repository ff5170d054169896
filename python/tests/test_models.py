"""Models of pydantic and structs of msgspec go in and come out."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
import uuid
from decimal import Decimal
from typing import ClassVar, Optional, Union

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


@dataclasses.dataclass(frozen=True)
class Job:
    count: ClassVar[int] = 7
    name: str
    extra: dataclasses.InitVar[int] = 0
    length: int = dataclasses.field(init=False, default=0)
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self, extra: int) -> None:
        object.__setattr__(self, "length", len(self.name) + extra)


def test_fields_of_dataclasses(c: flagstone.Collection) -> None:
    job = Job("n", extra=5, tags=["t"])
    c["j"] = job
    assert c["j"] == {"name": "n", "length": 6, "tags": ["t"]}
    # What the constructor does not take keeps its value.
    assert c.get("j", type=Job) == job
    c["j"] = {"name": "n", "other": 1}
    with pytest.raises(TypeError, match="Job has no field 'other'"):
        c.get("j", type=Job)


class Color(enum.Enum):
    RED = "red"


class Inner(pydantic.BaseModel):
    some_name: int = pydantic.Field(alias="someName")


class Outer(pydantic.BaseModel):
    day: datetime.date
    color: Color
    tags: set[uuid.UUID]
    raw: bytes
    at: datetime.datetime
    took: datetime.timedelta
    place: pathlib.PurePosixPath
    link: pydantic.AnyUrl
    pair: tuple[int, Color]
    by_color: dict[Color, int]
    inner: list[Inner]
    only_read: int = pydantic.Field(validation_alias=pydantic.AliasChoices("a", "b"))


class Renamed(pydantic.BaseModel):
    inner: Inner
    written: int = pydantic.Field(serialization_alias="w")


def test_aliases_and_other_types_of_pydantic(c: flagstone.Collection) -> None:
    outer = Outer(  # type: ignore[call-arg]
        day=datetime.date(2024, 5, 6), color=Color.RED, tags={uuid.UUID(int=1)}, raw=b"\xff",
        at=AT, took=datetime.timedelta(seconds=90), place=pathlib.PurePosixPath("/a"),
        link=pydantic.AnyUrl("http://a.b/c"), pair=(1, Color.RED), by_color={Color.RED: 2},
        inner=[Inner(someName=3)], a=5,  # pyright: ignore[reportCallIssue]
    )  # fmt: skip
    c["o"] = outer
    assert c.get("o", type=Outer) == outer
    doc = c["o"]
    assert (doc["day"], doc["color"], doc["raw"]) == ("2024-05-06", "red", b"\xff")
    assert doc["tags"] == [uuid.UUID(int=1)] and doc["at"] == AT and doc["only_read"] == 5
    assert doc["inner"] == [{"someName": 3}] and doc["by_color"] == {"red": 2}
    # An alias that is written and not read: then all have their names.
    renamed = Renamed(inner=Inner(someName=1), written=2)
    c["r"] = renamed
    assert c["r"] == {"inner": {"some_name": 1}, "written": 2}
    assert c.get("r", type=Renamed) == renamed

    class Secret(pydantic.BaseModel):
        key: pydantic.SecretStr

    with pytest.raises(TypeError, match=r"\$\.key: pydantic.*SecretStr is not supported"):
        c["s"] = Secret(key=pydantic.SecretStr("k"))


class Base(msgspec.Struct, tag_field="kind", rename="camel"):
    pass


class Cat(Base, tag="cat"):
    nice_name: str


class Dog(Base, tag="dog"):
    nice_name: str
    age: Union[int, msgspec.UnsetType] = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    x: int
    pet: Union[Cat, Dog]


class Zoo(msgspec.Struct, rename="kebab"):
    all_pets: list[Union[Cat, Dog]]
    raw: bytes
    at: datetime.datetime
    id: uuid.UUID
    price: Decimal
    day: datetime.date
    color: Color
    tags: set[int]
    row: Row


def test_names_tags_and_types_of_msgspec(c: flagstone.Collection) -> None:
    zoo = Zoo(
        [Cat("a"), Dog("b"), Dog("c", age=2)], b"\xff", AT, uuid.UUID(int=1), Decimal("1.10"),
        datetime.date(2024, 5, 6), Color.RED, {1, 2}, Row(1, Cat("d")),
    )  # fmt: skip
    c["z"] = zoo
    assert c.get("z", type=Zoo) == zoo
    doc = c["z"]
    assert doc["all-pets"][1:] == [
        {"kind": "dog", "niceName": "b"},
        {"kind": "dog", "niceName": "c", "age": 2},
    ]
    assert doc["row"] == [1, {"kind": "cat", "niceName": "d"}] and doc["raw"] == b"\xff"
    assert (doc["day"], doc["color"], doc["id"]) == ("2024-05-06", "red", uuid.UUID(int=1))
    assert c.get("z", path="all-pets.2", type=Union[Cat, Dog]) == Dog("c", age=2)  # type: ignore[call-overload]
    c["row"] = Row(2, Dog("e"))
    assert c["row"] == [2, {"kind": "dog", "niceName": "e"}]
    assert c.get("row", type=Row) == Row(2, Dog("e"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Color.RED, "Color is not supported in a document; use its value"),
        ({1}, "set is not supported in a document; use a list"),
        (frozenset(), "frozenset is not supported in a document; use a list"),
        (datetime.date(2024, 5, 6), "date is not supported in a document; use a datetime"),
        (datetime.time(1), "time is not supported in a document; use its isoformat"),
        (datetime.timedelta(1), "timedelta is not supported in a document; use its total_seconds"),
    ],
)
def test_an_unsupported_value_says_what_to_use_instead(
    value: object, text: str, c: flagstone.Collection
) -> None:
    with pytest.raises(TypeError, match=rf"^\$\.in\[0\]: .*{text}"):
        c["a"] = {"in": [value]}


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (41, int, 41),
        (41.0, int, 41),
        (41, float, 41.0),
        (Decimal("1.10"), float, 1.1),
        (1.5, Decimal, Decimal("1.5")),
        ("a", str, "a"),
        (True, bool, True),
        (b"ab", bytes, b"ab"),
        ([1, 2], list[int], [1, 2]),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([1, 1], set, {1}),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": 1}, dict, {"a": 1}),
        (7, Optional[int], 7),
        (1.5, Union[int, float, str], 1.5),
        ([{"x": 1}], list[Point], [Point(1)]),
        ("a", str.upper, "A"),
    ],
)
def test_types_of_python(
    c: flagstone.Collection, value: object, kind: type, expected: object
) -> None:
    c["d"] = {"v": value}
    found = c.get("d", path="v", type=kind)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (41.9, int, "type: expected int, found float 41.9"),
        ("41", int, "type: expected int, found str '41'"),
        (True, int, "type: expected int, found bool True"),
        ("false", bool, "type: expected bool, found str 'false'"),
        (0, bool, "type: expected bool, found int 0"),
        (5, bytes, "type: expected bytes, found int 5"),
        (5, str, "type: expected str, found int 5"),
        (Decimal("1E+999999999"), int, "type: expected int, found Decimal "),
        (Decimal("1E+999"), float, "type: expected float, found Decimal "),
        (2**53 + 1, float, "type: expected float, found int 9007199254740993"),
        ({"a": 1}, int, "type: expected int, found a map"),
        ("ab", list, "type: expected list, found str 'ab'"),
        ([1, "a"], list[int], "type: expected int, found str 'a'"),
        ("x", Optional[int], "type: expected int, found str 'x'"),
        ("x", Union[int, float], "type: expected int or float, found str 'x'"),
        ([1], tuple[int, int], "type: expected tuple"),
    ],
)
def test_a_value_of_another_type_is_not_converted(
    c: flagstone.Collection, value: object, kind: type, text: str
) -> None:
    """Constructors were called: 41.9 and "41" became 41, "false" was true, 5 five zero bytes."""
    c["d"] = {"v": value}
    with pytest.raises(TypeError) as refused:
        c.get("d", path="v", type=kind)
    assert str(refused.value).startswith(text)
