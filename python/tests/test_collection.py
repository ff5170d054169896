"""A collection is a mutable mapping of keys to documents, which come back exactly."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
import pickle
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import flagstone
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

UTC = datetime.timezone.utc

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
    | st.uuids()
    | st.binary(min_size=12, max_size=12).map(flagstone.ObjectId)
    | st.datetimes(timezones=st.just(UTC))
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.text(max_size=3) | st.integers(-3, 3) | st.booleans() | st.binary(max_size=2)


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


def same(one: object, other: object) -> bool:
    """Whether two decoded values are equal and of the same types."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_values_come_back_as_they_went_in(c: flagstone.Collection) -> None:
    @given(DOCUMENTS)
    def check(value: Any) -> None:
        c["k"] = value
        back = c["k"]
        assert same(back, value), (back, value)
        if isinstance(value, dict):
            assert isinstance(back, flagstone.Document)
            assert same(back.to_dict(), value) and back == value and len(back) == len(value)
            assert list(back) == list(value) and list(back.keys()) == list(value.keys())
            for name in value:
                assert same(back[name], value[name]) and name in back
                assert back.get(name) == value[name]

    check()


def test_json_text_comes_back_exactly(c: flagstone.Collection) -> None:
    text = '{"a":1.10,"b":[1e400,-0,123456789012345678901234567890],"c":0.1,"d":1E5,"e":"\\u00e9"}'
    c.put_json("k", text)
    assert c.get_json("k") == text.replace("\\u00e9", "\u00e9")
    document = c["k"]
    assert document["a"] == Decimal("1.10") and str(document["a"]) == "1.10"
    assert same(
        document["b"], [Decimal("1e400"), Decimal("-0"), 123456789012345678901234567890]
    )
    assert same(document["c"], 0.1) and same(document["d"], Decimal("1E5"))
    c["copy"] = document
    assert c.get_json("copy") == document.json()
    assert c.get_json("none") is None


def test_numbers_of_json_are_those_of_the_json_module(c: flagstone.Collection) -> None:
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)

    @given(st.lists(numbers))
    def check(values: list[Any]) -> None:
        text = json.dumps(values)
        c.put_json("k", text)
        assert json.loads(text) == c["k"]
        exact = json.loads(text, parse_float=Decimal)
        assert exact == [Decimal(v) if isinstance(v, Decimal) else v for v in exact]
        decimals = [Decimal(repr(v)) if isinstance(v, float) else v for v in c["k"]]
        assert decimals == exact

    check()


def test_decimals_come_as_the_handle_says(db: flagstone.Database) -> None:
    db.collection("c").put_json("k", "[1.10,0.5,2,1e400]")
    read = {
        rule: db.collection("c", decimal=rule)["k"]
        for rule in ("auto", "always", "float")
    }
    assert same(read["auto"], [Decimal("1.10"), 0.5, 2, Decimal("1e400")])
    assert same(read["always"], [Decimal("1.10"), Decimal("0.5"), 2, Decimal("1e400")])
    # What is beyond all floats is no float.
    assert same(read["float"], [1.1, 0.5, 2, Decimal("1e400")])
    with pytest.raises(flagstone.InvalidInput, match='decimal "sometimes": expected "auto"'):
        db.collection("c", decimal="sometimes")  # type: ignore[arg-type]


def test_an_int_may_have_any_size(c: flagstone.Collection) -> None:
    large = 10**5000 + 7
    c["k"] = {"n": [large, -large, 2**63, -(2**63), 2**64]}
    assert same(c["k"]["n"], [large, -large, 2**63, -(2**63), 2**64])


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"a": [1, {"b": object()}]}, "$.a[1].b", "object is not supported"),
        ({"a b": {1, 2}}, '$["a b"]', "set is not supported"),
        ([datetime.datetime(2020, 1, 1)], "$[0]", "without a time zone"),
        ({"d": datetime.date(2020, 1, 1)}, "$.d", "datetime.date is not supported"),
        ({"d": Decimal("NaN")}, "$.d", "not a finite number"),
        ("\ud800", "$", "lone surrogate"),
        ({"t": int}, "$.t", "type is not supported"),
    ],
)
def test_what_has_no_form_is_a_type_error_with_its_path(
    c: flagstone.Collection, value: object, path: str, reason: str
) -> None:
    with pytest.raises(TypeError) as raised:
        c["k"] = value
    assert str(raised.value).startswith(f"{path}: ") and reason in str(raised.value)
    assert "k" not in c


def test_what_contains_itself_is_invalid(c: flagstone.Collection) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(flagstone.InvalidInput, match="nested deeper"):
        c["k"] = value
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    c["k"] = deep
    assert c["k"] == deep


def test_maps_may_have_keys_of_other_types(c: flagstone.Collection) -> None:
    value = {"m": {1: "a", b"b": [2], ("t", 1): None}}
    c["k"] = value
    assert c["k"] == value and c["k"]["m"] == value["m"]
    assert c.get_json("k") == (
        '{"m":{"$pairs":[[1,"a"],["Yg==",[2]],[["t",1],null]]}}'
    )
    text = c["k"].json(extended_json=True)
    c.put_json("again", text, extended_json=True)
    assert c["again"] == value


def test_what_json_lacks_comes_back_from_extended_json(
    c: flagstone.Collection, tmp_path: Path
) -> None:
    """A float that is not finite raised, and dates, bytes and UUIDs came back as text."""
    c["a"] = {"id": "a", "f": float("nan"), "i": [float("inf"), -float("inf")]}
    plain = '{"id":"a","f":{"$numberDouble":"NaN"},"i":[{"$numberDouble":"Infinity"},'
    plain += '{"$numberDouble":"-Infinity"}]}'
    assert c.get_json("a") == c["a"].json() == plain
    assert c.get_json("a", extended_json=True) == plain

    @given(DOCUMENTS)
    def check(value: Any) -> None:
        c["k"] = value
        text = c.get_json("k", extended_json=True)
        assert text is not None
        json.loads(text)
        c.put_json("k2", text, extended_json=True)
        assert c["k2"] == c["k"] and c.get_json("k2", extended_json=True) == text

    check()
    file = tmp_path / "f.jsonl"
    file.write_text(
        '{"id":1,"t":{"$date":{"$numberLong":"0"}}}\n{"id":2,"t":{"$date":"1970-01-01T00:00:00Z"}}\n'
    )
    c.load(file, extended_json=True)
    assert c[1]["t"] == c[2]["t"] == datetime.datetime(1970, 1, 1, tzinfo=UTC)
    c.load(file)
    assert c[1]["t"] == {"$date": {"$numberLong": "0"}}
    with pytest.raises(flagstone.InvalidInput, match="byte 14.*RFC 3339"):
        c.put_json("bad", '{"t":{"$date":42}}', extended_json=True)


class Laws(RuleBasedStateMachine):
    """Does the same with a collection and with a dict, and compares what they return."""

    db: flagstone.Database
    runs = 0

    @initialize()
    def begin(self) -> None:
        Laws.runs += 1
        self.c = self.db.collection(f"laws-{Laws.runs}")
        self.model: dict[object, Any] = {}

    @staticmethod
    def of(key: object) -> object:
        """Tells True from 1, which a dict does not."""
        return (type(key), key)

    @rule(key=KEYS, value=DOCUMENTS)
    def set(self, key: object, value: object) -> None:
        self.c[key] = value
        self.model[self.of(key)] = value

    @rule(key=KEYS)
    def read(self, key: object) -> None:
        expected = self.model.get(self.of(key), "none")
        assert same(self.c.get(key, "none"), expected)
        assert (key in self.c) == (self.of(key) in self.model)
        try:
            assert same(self.c[key], expected)
        except KeyError as error:
            assert error.args == (key,) and self.of(key) not in self.model

    @rule(key=KEYS)
    def remove(self, key: object) -> None:
        if self.model.pop(self.of(key), "none") == "none" and key not in self.c:
            with pytest.raises(KeyError):
                del self.c[key]
        elif key in self.c:
            del self.c[key]

    @rule(key=KEYS)
    def pop(self, key: object) -> None:
        expected = self.model.pop(self.of(key), "none")
        assert same(self.c.pop(key, "none"), expected)
        with pytest.raises(KeyError):
            self.c.pop(key)

    @rule(key=KEYS, value=DOCUMENTS)
    def setdefault(self, key: object, value: object) -> None:
        assert same(self.c.setdefault(key, value), self.model.setdefault(self.of(key), value))

    @rule(pairs=st.lists(st.tuples(KEYS, DOCUMENTS), max_size=5))
    def update(self, pairs: list[tuple[object, object]]) -> None:
        assert self.c.update(pairs) is None
        self.model.update((self.of(key), value) for key, value in pairs)

    @rule()
    def whole(self) -> None:
        keys = list(self.c)
        assert len(keys) == len(self.c) == len(self.model) and bool(self.c) == bool(self.model)
        assert {self.of(key) for key in keys} == self.model.keys()
        assert list(reversed(self.c)) == keys[::-1]
        for key, document in self.c.items():
            assert same(document, self.model[self.of(key)])

    @rule(start=KEYS, end=KEYS, reverse=st.booleans())
    def range(self, start: object, end: object, reverse: bool) -> None:
        keys = self.c.keys(start, end, reverse=reverse)
        found = list(keys)
        assert found == [key for key in self.c.keys(reverse=reverse) if key in keys]

    @rule(prefix=st.text(max_size=2))
    def prefix(self, prefix: str) -> None:
        expected = [k for k in self.c if isinstance(k, str) and k.startswith(prefix)]
        assert list(self.c.keys(prefix=prefix)) == expected


def test_a_collection_obeys_the_laws_of_mappings(db: flagstone.Database) -> None:
    Laws.db = db
    run_state_machine_as_test(Laws)


def test_a_collection_is_a_mutable_mapping_of_mappings(c: flagstone.Collection) -> None:
    c["a"] = {"n": {"m": 1}}
    assert isinstance(c, MutableMapping) and isinstance(c["a"], Mapping)
    assert isinstance(c["a"]["n"], flagstone.Document)
    assert c == {"a": {"n": {"m": 1}}} and c != {"a": {"n": {"m": 2}}}
    match c["a"]:
        case {"n": {"m": m}}:
            assert m == 1
        case _:
            pytest.fail("the pattern of a mapping does not match")


def test_a_document_stays_as_it_was_read(db: flagstone.Database) -> None:
    c = db.collection("c")
    c["a"] = {"n": {"m": 1}, "list": [{"x": 1}]}
    document = c["a"]
    inner = document["n"]
    c["a"] = {"other": True}
    db.drop("c")
    db.close()
    assert document.to_dict() == {"n": {"m": 1}, "list": [{"x": 1}]}
    assert inner["m"] == 1 and document.path("list.0.x") == 1
    assert document.path("$.list[*].x") == [1] and document.path("$.no", default=5) == 5
    assert repr(document) == "Document({'n': {'m': 1}, 'list': [{'x': 1}]})"
    with pytest.raises(TypeError, match="does not change"):
        document["n"] = 2
    with pytest.raises(KeyError, match="no"):
        document["no"]
    with pytest.raises(flagstone.InvalidInput):
        document.path("$.[")


@pytest.mark.parametrize("path", ["", ".", "n..b", "l.", ".n"])
def test_a_path_that_lacks_a_name_is_no_missing_value(
    c: flagstone.Collection, path: str
) -> None:
    c["a"] = {"n": 1, "": {"": 7}}
    for read in (
        lambda: c.get("a", path=path), lambda: c["a"].path(path), lambda: c.find().distinct(path)
    ):  # fmt: skip
        with pytest.raises(flagstone.InvalidInput, match="expected a name before and after"):
            read()
    assert c.get("a", path="$['']['']") == 7


def test_get_reads_a_part(c: flagstone.Collection) -> None:
    c["a"] = {"author": {"name": "x"}, "tags": ["p", "q"]}
    assert c.get("a", path="$.author.name") == "x"
    assert c.get("a", path="tags.1") == "q"
    assert c.get("a", path="$.tags[*]") == ["p", "q"]
    assert c.get("a", path="none") is None and c.get("a", "default", path="none") == "default"
    assert c.get("b", "default", path="none") == "default"
    with pytest.raises(flagstone.InvalidInput):
        c.get("a", path="$[")


@dataclasses.dataclass
class Vote:
    by: str
    weight: float = 1.0


@dataclasses.dataclass
class Post:
    title: str
    votes: list[Vote]
    best: Vote | None = None


def test_dataclasses_go_in_and_come_out(c: flagstone.Collection) -> None:
    post = Post("t", [Vote("a"), Vote("b", 0.5)], best=Vote("a"))
    c["p"] = post
    assert c["p"] == dataclasses.asdict(post)
    assert c.get("p", type=Post) == post
    assert c.get("p", path="best", type=Vote) == Vote("a")
    assert c.get("none", type=Post) is None
    c["q"] = {"title": "t", "votes": [], "extra": 1}
    with pytest.raises(TypeError, match="Post has no field 'extra'"):
        c.get("q", type=Post)


class Model:
    """Has the methods of a pydantic model."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, object]:
        return self.fields

    @classmethod
    def model_validate(cls, fields: dict[str, object]) -> Model:
        return cls(**fields)


def test_models_go_in_and_come_out_by_their_own_methods(c: flagstone.Collection) -> None:
    c["m"] = {"model": Model(n=1)}
    assert c["m"] == {"model": {"n": 1}}
    model = c.get("m", path="model", type=Model)
    assert model is not None and model.fields == {"n": 1}


@pytest.mark.parametrize(
    ("update", "filters", "after"),
    [
        ({"$inc": {"items.$[].n": 1}}, [], {"items": [{"s": "x", "n": 2}, {"s": "y", "n": 6}]}),
        (
            {"$mul": {"items.$[i].n": 2}},
            [{"i.s": "y"}],
            {"items": [{"s": "x", "n": 1}, {"s": "y", "n": 10}]},
        ),
        ({"$push": {"tags": {"$each": ["c"], "$sort": -1, "$slice": 2}}}, [], {"tags": ["c", "b"]}),
        ({"$push": {"tags": {"$each": ["c"], "$position": 1}}}, [], {"tags": ["a", "c", "b"]}),
        ({"$pull": {"items": {"n": {"$gt": 3}}}}, [], {"items": [{"s": "x", "n": 1}]}),
        ({"$pull": {"tags": {"$in": ["a"]}}, "$setOnInsert": {"n": 9}}, [], {"tags": ["b"]}),
        ([{"$set": {"sum": {"$add": ["$n", 1]}, "by": "$_id"}}], [], {"sum": 2, "by": "a"}),
        ({"$set": {"d": Decimal("1.10")}}, (), {"d": Decimal("1.10")}),
    ],
)
def test_an_update_document_changes_parts(
    c: flagstone.Collection,
    db: flagstone.Database,
    update: dict[str, Any] | list[dict[str, Any]],
    filters: Sequence[dict[str, Any]],
    after: dict[str, Any],
) -> None:
    before = {"n": 1, "tags": ["a", "b"], "items": [{"s": "x", "n": 1}, {"s": "y", "n": 5}]}
    c["a"] = before
    assert c.update("a", update=update, array_filters=filters)
    assert c["a"] == before | after
    c["a"] = before
    assert c.find({"n": 1}).update(update=update, array_filters=filters) == 1
    assert c["a"] == before | after
    c["a"] = before
    with db.transaction() as tx:
        assert tx[c].update("a", update=update, array_filters=filters)
    assert c["a"] == before | after


def test_an_update_document_replaces_inserts_and_knows_the_element_that_matches(
    c: flagstone.Collection, db: flagstone.Database
) -> None:
    c["a"] = {"tags": ["x", "y"]}
    assert c.find({"tags": "y"}).update(update={"$set": {"tags.$": "z"}}) == 1
    assert c["a"] == {"tags": ["x", "z"]}
    assert c.update("a", update={"new": 1}) and c["a"] == {"new": 1}
    assert c.update("a", update={"$currentDate": {"at": True}})
    assert isinstance(c["a"]["at"], datetime.datetime)
    assert not c.update("none", update={"$inc": {"n": 1}})
    count: dict[str, Any] = {"$inc": {"n": 1}, "$setOnInsert": {"first": True}}
    for _ in range(2):
        assert c.update("b", update=count, upsert=True)
    assert c["b"] == {"n": 2, "first": True}
    named = c.find({"$key": 7, "at.city": "Oslo"})
    assert named.update(update=count) == 0
    for _ in range(2):
        assert named.update(update=count, upsert=True) == 1
    assert c[7] == {"at": {"city": "Oslo"}, "n": 2, "first": True}
    with pytest.raises(flagstone.Duplicate, match="a document 7"):
        c.find({"$key": 7, "n": 9}).update(update=count, upsert=True)
    with db.transaction() as tx:
        assert tx[c].find({"by": "ada"}).update(update=count, upsert=True) == 1
    assert c.find({"by": "ada"}).count() == 1


def test_update_documents_that_are_wrong_are_refused(
    c: flagstone.Collection, db: flagstone.Database
) -> None:
    c["a"] = {"t": "x"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"update": {"$pus": {"a": 1}}}, r"update: expected one of \$set"),
        ({"update": {"$inc": {"t": 1}}}, r"update\.\$inc\.t: expected a number"),
        ({"update": {"$set": {"a.$": 1}}}, "expected a filter that matches"),
        ({"update": {"$set": {"_id": 1}}}, "update._id: expected no change"),
        ({"update": {"$set": {"a.$[x]": 1}}}, "expected an array filter"),
        ({"update": [{"$match": {}}]}, r"update\[0\]: expected one of"),
        ({"update": 7}, "expected operators, a replacement or stages"),
        ({"update": {}, "inc": {"n": 1}}, "expected array_filters or upsert with it, found inc"),
        ({"inc": {"n": 1}, "array_filters": []}, "array_filters: expected with update= only"),
    ]
    for changes, text in wrong:
        with pytest.raises(flagstone.InvalidInput, match=text):
            c.update("a", **changes)
    with pytest.raises(flagstone.InvalidInput, match="expected operators or stages"):
        c.find({}).update(update={"a": 1})
    mistyped: list[tuple[dict[str, Any], str]] = [
        ({"update": {"$set": {"a": object()}}}, r"update\[.*object"),
        ({"update": {}, "array_filters": {"x": 1}}, "array_filters: expected a list of filters"),
        ({"update": {}, "upsert": {"n": 1}}, "upsert: expected True or False"),
    ]
    for changes, text in mistyped:
        with pytest.raises(TypeError, match=text):
            c.update("a", **changes)
    with db.batch() as batch, pytest.raises(flagstone.InvalidInput, match="a batch is written"):
        batch[c].update("a", update={"$set": {"a": 1}})
    assert c["a"] == {"t": "x"}


def test_an_update_changes_parts(c: flagstone.Collection) -> None:
    c["a"] = {"n": 1, "s": "x", "list": [1], "old": True}
    assert c.update(
        "a",
        inc={"n": 2},
        set={"deep.er": {"x": Decimal("1.10")}, "$.s": "y"},
        push={"list": 2},
        unset="old",
        rename={"s": "t"},
    )
    assert c["a"] == {
        "n": 3, "t": "y", "list": [1, 2], "deep": {"er": {"x": Decimal("1.10")}}
    }
    assert not c.update("none", inc={"n": 1})
    assert c.update("new", inc={"n": 1}, upsert=True)
    assert c.update("from", inc={"n": 1}, upsert={"n": 10})
    assert c["new"] == {"n": 1} and c["from"] == {"n": 11}
    with pytest.raises(flagstone.ConditionFailed):
        c.update("a", set={"n": 0}, where={"n": 4})
    assert c.update("a", set={"n": 0}, where={"n": 3}) and c["a"]["n"] == 0
    with pytest.raises(flagstone.InvalidInput):
        c.update("a", inc={"t": 1})
    with pytest.raises(TypeError, match="found increment"):
        c.update("a", increment={"n": 1})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="inc: expected a dict"):
        c.update("a", inc=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r'set\["x"\]\[0\]: object'):
        c.update("a", set={"x": [object()]})
    with pytest.raises(TypeError, match="expected changes"):
        c.update("a")


def test_finds_filter_sort_and_project(c: flagstone.Collection) -> None:
    c.update(
        {n: {"n": n, "even": n % 2 == 0, "tags": [str(n % 3)], "at": {"x": n}} for n in range(30)}
    )
    assert c.find().count() == 30 and c.find({"even": True}).count() == 15
    assert c.find('{"even":true}').count() == 15
    found = list(c.find({"n": {"$gte": 20}, "even": True}, sort="-n", limit=2, skip=1))
    assert [(key, doc["n"]) for key, doc in found] == [(26, 26), (24, 24)]
    assert list(c.find({"n": 5}, fields=["n", "at.x"]).values()) == [{"n": 5, "at": {"x": 5}}]
    assert list(c.find({"n": 5}, fields="-tags,-even,-at").values()) == [{"n": 5}]
    assert list(c.find({"n": {"$lt": 3}}, sort=["even", "-n"]).keys()) == [1, 2, 0]
    assert list(c.find({"n": {"$lt": 3}}, sort="-$key").keys()) == [2, 1, 0]
    assert c.find_one(sort="-$key") == (29, c[29])
    assert list(c.find(sort=["-even", "-$key"], limit=2).keys()) == [28, 26]
    assert c.find().distinct("tags") == ["0", "1", "2"]
    assert c.find_one({"n": 7}) == (7, c[7]) and c.find_one({"n": 70}) is None
    assert c.find({"n": {"$in": [1, Decimal("2.0"), b"x"]}}).count() == 2
    assert c.find({"n": {"$gte": 28}}).update(set={"late": True}) == 2
    assert c.find({"late": True}).delete() == 2 and len(c) == 28
    for wrong in ({"n": {"$gtee": 1}}, "{", {"$or": 1}):
        with pytest.raises(flagstone.InvalidInput):
            c.find(wrong)
    with pytest.raises(flagstone.InvalidInput, match="takes no sort"):
        c.find(limit=1).delete()
    with pytest.raises(TypeError, match="sort: expected a path"):
        c.find(sort=1)  # type: ignore[arg-type]
    find = c.find({"n": 1}, sort="-n", limit=3)
    assert repr(find) == '<flagstone.Find {"n":1}, sort={"n":-1}, limit=3>'


def test_indexes_serve_finds(c: flagstone.Collection) -> None:
    c.update({n: {"n": n % 100, "even": n % 2 == 0} for n in range(2000)})
    c.create_index("by_n", "$.n", "-even")
    c.create_index("by_n", "$.n", "-even")
    assert c.indexes() == {"by_n": "n, -even"}
    assert 'index "by_n"' in c.find({"n": 7}).explain()
    assert "scan of all" in c.find({"other": 7}).explain()
    assert "rows" in c.find({"n": 7}).explain(analyze=True)
    assert c.find({"n": 7}).count() == 20
    c.create_index("only_once", "x", unique=True, sparse=True, only={"x": {"$exists": True}})
    c["a"] = {"x": 1}
    with pytest.raises(flagstone.Duplicate):
        c["b"] = {"x": 1}
    assert c.drop_index("by_n") and not c.drop_index("by_n")
    with pytest.raises(flagstone.InvalidInput, match="expected a field"):
        c.create_index("none")


def test_tables_show_the_first_documents(c: flagstone.Collection) -> None:
    c.update({f"k{n:02}": {"text": "<b>" * 50, "n": {"m": n}} for n in range(30)})
    html = c._repr_html_()
    assert "<th>key</th>\n<th>text</th>\n<th>n</th>" in html and "&lt;b&gt;" in html
    assert "k09" in html and "k10" not in html and "the first 10 documents" in html
    assert "<b>" not in html
    assert "k29" in c.find(sort="-n.m", limit=3)._repr_html_()


def test_a_document_expires(c: flagstone.Collection) -> None:
    c.put("a", {"n": 1}, expires=datetime.timedelta(hours=1))
    c.put("b", {"n": 1}, expires=datetime.datetime(2020, 1, 1, tzinfo=UTC))
    assert "a" in c and "b" not in c
    expiry = c.expiry("a")
    assert expiry is not None and expiry > datetime.datetime.now(UTC)


def test_a_database_gives_numbers_copies_and_proof(
    db: flagstone.Database, tmp_path: Path
) -> None:
    c = db.collection("c")
    c["a"] = {"id": uuid.UUID(int=5)}
    db.flush()
    stats = db.stats()
    assert stats["keyspaces"]["c"]["table_entries"] == 1 and stats["flushes"] >= 1
    assert db.keyspaces() == {"c": "documents"}
    assert db.verify()
    assert db.backup(tmp_path / "copy") and any((tmp_path / "copy").iterdir())
    with pytest.raises(flagstone.InvalidInput):
        db.keyspace("c")


def test_texts_of_all_lengths_follow_one_another(tmp_path: Path) -> None:
    with flagstone.open(tmp_path) as db:
        c, kv = db.collection("c"), db.keyspace("kv")
        texts = {str(n): '{"t":"' + "x" * n + '"}' for n in (0, 100, 70_000, 3, 1_000_000, 50)}
        for key, text in texts.items():
            c.put_json(key, text)
            kv[key.encode()] = text.encode()
        for _ in range(2):
            for key, text in texts.items():
                assert c.get_json(key) == text
                assert c.get_json("absent") is None
                assert kv[key.encode()] == text.encode()
                assert kv.get(b"absent") is None
            db.flush()


def test_object_ids_come_back_and_equal_those_of_bson(c: flagstone.Collection) -> None:
    """They were stored as maps, which neither a filter by an ObjectId nor an index found."""

    # As the package `bson` has it; that is not imported.
    class Foreign:
        def __init__(self, binary: bytes) -> None:
            self.binary = binary

        def __eq__(self, other: object) -> bool:
            return self.binary == other.binary if isinstance(other, Foreign) else NotImplemented

        def __hash__(self) -> int:
            return hash(self.binary)

    Foreign.__name__ = "ObjectId"
    mine = flagstone.ObjectId("56e1fc72e0c917e9c4714161")
    foreign = Foreign(mine.binary)
    c[foreign] = {"of": foreign}
    assert c[mine]["of"] == mine == foreign and foreign == mine and list(c) == [mine]
    assert type(c[mine]["of"]) is flagstone.ObjectId and {mine: 1}[c[foreign]["of"]] == 1
    assert c.get_json(mine) == '{"of":"56e1fc72e0c917e9c4714161"}'
    assert c.get_json(mine, extended_json=True) == '{"of":{"$oid":"56e1fc72e0c917e9c4714161"}}'
    c.create_index("of", "$.of")
    for condition in (mine, foreign, {"$in": [mine]}, {"$gte": mine}, {"$type": "objectId"}):
        assert [key for key, _ in c.find({"of": condition})] == [mine], condition
    assert list(c.find({"of": str(mine)})) == []
    with pytest.raises(TypeError, match=r"\$\.x: .*Foreign is not supported"):
        c["bad"] = {"x": Foreign(b"short")}


def test_an_object_id_is_immutable_and_is_made_from_text_bytes_or_nothing() -> None:
    text = "56e1fc72e0c917e9c4714161"
    one = flagstone.ObjectId(text)
    assert str(one) == text and repr(one) == f"ObjectId('{text}')" and bytes(one) == one.binary
    assert one.generation_time == datetime.datetime(2016, 3, 10, 23, 0, 2, tzinfo=UTC)
    assert flagstone.ObjectId(one.binary) == flagstone.ObjectId(text.upper()) == one
    assert pickle.loads(pickle.dumps(one)) == one and copy.deepcopy(one) == one
    with pytest.raises(AttributeError):
        setattr(one, "binary", b"")
    made = [flagstone.ObjectId() for _ in range(100)]
    assert len(set(made)) == 100 and all(id.binary[4:9] == made[0].binary[4:9] for id in made)
    assert flagstone.ObjectId(bytes(12)) < one <= one and one != text
    bads: list[tuple[Any, type[Exception]]] = [
        ("", ValueError), (text[1:], ValueError), ("56 1fc72e0c917e9c4714161", ValueError),
        (b"short", ValueError), (5, TypeError), ([], TypeError),
    ]
    for bad, error in bads:
        with pytest.raises(error, match="is no ObjectId"):
            flagstone.ObjectId(bad)
