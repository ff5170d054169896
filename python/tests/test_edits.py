"""Documents of a transaction: all changes of them are written, or refused."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any, Literal

import flagstone
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def c(db: flagstone.Database) -> flagstone.Collection:
    return db.collection("c")


START = {"score": 1, "tags": ["a", "c", "b"], "l": [{"q": 1, "in": [{"n": [0]}]}, [1, 2]]}

CHANGES: list[Callable[[Any], object]] = [
    lambda d: d["tags"].append("d"),
    lambda d: d["tags"].extend(["d", "e"]),
    lambda d: d["tags"].insert(1, "d"),
    lambda d: d["tags"].pop(),
    lambda d: d["tags"].remove("c"),
    lambda d: d["tags"].clear(),
    lambda d: d["tags"].sort(reverse=True),
    lambda d: d["tags"].reverse(),
    lambda d: d["tags"].__setitem__(0, "z"),
    lambda d: d["tags"].__setitem__(slice(0, 2), ["z"]),
    lambda d: d["tags"].__delitem__(0),
    lambda d: d["l"][0].__setitem__("q", 2),
    lambda d: d["l"][0].__delitem__("q"),
    lambda d: d["l"][0].update(q=2, r=3),
    lambda d: d["l"][0].pop("q"),
    lambda d: d["l"][0].setdefault("new", []).append(1),
    lambda d: d["l"][0]["in"][0]["n"].append(1),
    lambda d: d["l"][1].append(3),
    lambda d: (d["l"].append({"q": 3}), d["l"][-1].__setitem__("q", 4)),
    lambda d: (d["l"].sort(key=str), d["l"][0].__setitem__(0, 7)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_inside_of_lists_are_written(
    change: Callable[[Any], object], db: flagstone.Database, c: flagstone.Collection
) -> None:
    model = copy.deepcopy(START)
    change(model)
    reads: list[Callable[[flagstone.Collection], Any]] = [
        lambda c: c["a"],
        lambda c: c.get("a"),
        lambda c: c.setdefault("a", {}),
        lambda c: next(iter(c.values())),
        lambda c: dict(c.items())["a"],
        lambda c: next(iter(c.find().values())),
        lambda c: (c.find_one() or [])[1],
    ]
    for read in reads:
        c["a"] = START
        with db.transaction() as tx:
            change(read(tx[c]))
            assert tx[c]["a"] == model
        assert c["a"] == model


def test_operators_in_place(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"], c["list"] = START, [1]
    with db.transaction() as tx:
        doc = tx[c]["a"]
        doc["tags"] += ["d"]
        doc["l"][1] *= 2
        doc["l"][0] |= {"q": 9}
        tx[c].get("a")["x"] = {"in": 5}
        tx[c]["a"]["x"]["in"] += 1
        tx[c]["list"].append(2)
    assert c["a"]["tags"] == ["a", "c", "b", "d"] and c["a"]["x"] == {"in": 6}
    assert c["a"]["l"] == [{"q": 9, "in": [{"n": [0]}]}, [1, 2, 1, 2]] and c["list"] == [1, 2]


def test_a_list_of_a_transaction_is_a_list(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"] = START
    with db.transaction() as tx:
        part = tx[c]["a"]["l"]
        assert isinstance(part, list) and isinstance(part[0], dict) and part == START["l"]
        assert json.dumps(part) == json.dumps(START["l"]) and repr(part) == repr(START["l"])
        for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
            assert type(other) is list and type(other[0]) is dict and other == part
            other[0]["q"] = 5
        tx[c]["b"] = {"l": part}
    assert c["a"] == START and c["b"]["l"] == START["l"]


def test_a_change_that_cannot_be_written_changes_nothing(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    c["a"] = START
    with db.transaction() as tx:
        doc = tx[c]["a"]
        tags, part = doc["tags"], doc["l"]
        with pytest.raises(TypeError, match=r"\$\.tags\[3\]: object is not supported"):
            tags.append(object())
        with pytest.raises(TypeError, match=r"\$\.l\[0\]\.q: object is not supported"):
            part[0]["q"] = object()
        with pytest.raises(TypeError, match=r"\$\.x: object is not supported"):
            doc["x"] = object()
        assert tags == START["tags"] and part == START["l"]
        # Another object of the same document has changed it.
        tx[c]["a"]["tags"].append("d")
        with pytest.raises(flagstone.InvalidInput, match="has changed: read it again"):
            tags.append("e")
        assert tags == START["tags"] and tx[c]["a"]["tags"] == ["a", "c", "b", "d"]
    with pytest.raises(flagstone.InvalidInput, match="has ended"):
        part[0]["q"] = 2
    with pytest.raises(TypeError, match="does not change"):
        c["a"]["x"] = 1


def test_what_is_read_refuses_changes_that_would_be_lost(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    """Lists, and maps in them or with other keys than names, were plain: changes were lost."""
    c["a"] = {"l": [3, [1], {"x": {"y": [1]}}], "m": {1: {"z": 1}}}
    c["list"], c["map"] = [1], {7: [1]}
    first: dict[str, Any] = {"l": [3, [1], {"x": {"y": [1]}}], "m": {1: {"z": 1}}}
    found: list[Any] = [c["a"]["l"], c["a"]["l"][1], c["list"], c.get("list"), c["map"][7]]
    found += [c["a"]["l"][2]["x"]["y"], c["a"].get("l"), next(iter(c.values()))["l"]]
    found += [document["l"] for key, document in c.find({"l": 3})]
    with db.snapshot() as snapshot:
        found += [snapshot[c]["list"], c.find_one({"l": 3})[1]["l"]]  # type: ignore[index]
    changes: dict[str, list[Any]] = {
        "append": [1], "clear": [], "extend": [[1]], "insert": [0, 1], "pop": [], "remove": [1],
        "reverse": [], "sort": [], "__setitem__": [0, 1], "__delitem__": [0], "__iadd__": [[1]],
        "__imul__": [2],
    }  # fmt: skip
    for items in found:
        for name, words in changes.items():
            with pytest.raises(TypeError, match="a list in a Document does not change"):
                getattr(items, name)(*words)
    changes = {
        "clear": [], "pop": [1], "popitem": [], "setdefault": [1, 1], "update": [{"a": 1}],
        "__setitem__": ["x", 1], "__delitem__": ["x"], "__ior__": [{}],
    }  # fmt: skip
    for entries in (c["a"]["l"][2], c["a"]["l"][2]["x"], c["a"]["m"], c["a"]["m"][1], c["map"]):
        for name, words in changes.items():
            with pytest.raises(TypeError, match="a dict in a Document does not change"):
                getattr(entries, name)(*words)
    assert c["a"] == first and c["list"] == [1] and c["map"] == {7: [1]}
    # They are lists and dicts, and every copy is one as any other.
    tags = c["a"]["l"]
    assert isinstance(tags, list) and isinstance(tags[2], dict) and json.dumps(tags)
    copies = [list(tags), tags[:], tags + [], copy.copy(tags), tags.copy()]
    for each in [*copies, pickle.loads(pickle.dumps(tags)), copy.deepcopy(tags)]:
        assert type(each) is list and each == tags
        each.append(1)
    deep = copy.deepcopy(c["a"]["m"])
    deep[1]["z"] = 2
    assert type(deep) is dict and type(deep[1]) is dict
    own: list[Any] = [c["a"].to_dict()["l"], c.get("a", path="l"), c["a"].path("$.l")]
    for mine in [*own, c.get("list", type=list)]:
        mine.append("new")
    whole = c["a"].to_dict()
    whole["l"].append({"x": 1})
    c["b"] = whole
    c.update("a", set={"l": c["b"]["l"], "m": c["a"]["l"][2]})
    assert c["a"]["l"] == [*first["l"], {"x": 1}] and c["a"]["m"] == first["l"][2]
    with db.transaction() as tx:
        tx[c]["a"]["l"] = c["list"]
        tx[c]["a"]["l"].append(2)
    assert c["a"]["l"] == [1, 2]


def test_numbers_beside_a_change_keep_their_digits(
    db: flagstone.Database, c: flagstone.Collection
) -> None:
    decimals: list[Literal["auto", "always", "float"]] = ["auto", "always", "float"]
    for decimal in decimals:
        c.put_json("a", '{"l":[0.2,1.10,{"x":2.50,"y":3},1e2,0.5]}')
        handle = db.collection("c", decimal=decimal)
        with db.transaction() as tx:
            part = tx[handle]["a"]["l"]
            part.append(7)
            part[2]["y"] = 4
            part.pop(0)
        assert c.get_json("a") == '{"l":[1.10,{"x":2.50,"y":4},1e2,0.5,7]}'


def test_a_map_that_was_replaced_says_so(db: flagstone.Database, c: flagstone.Collection) -> None:
    c["a"] = {"y": {"z": 1}}
    calls: list[Callable[[Any], object]] = [
        lambda x: x["z"], len, list, repr, dict, lambda x: "z" in x, lambda x: x.get("z"),
        lambda x: x.__setitem__("z", 1), lambda x: x.to_dict(), lambda x: x.json(),
    ]
    with db.transaction() as tx:
        doc = tx[c]["a"]
        x = doc["y"]
        for other in ([1, 2], 5):
            doc["y"] = other
            for call in calls:
                with pytest.raises(flagstone.InvalidInput, match="changed"):
                    call(x)
            assert doc["y"] == other
        del doc["y"]
        with pytest.raises(flagstone.InvalidInput, match=r"\$\.y is no map any more"):
            x["z"]


VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50)
@given(items=st.lists(VALUES, max_size=6), value=VALUES, at=st.integers(-7, 7), steps=st.data())
def test_lists_change_as_lists_do(
    db: flagstone.Database, items: list[Any], value: Any, at: int, steps: st.DataObject
) -> None:
    c = db.collection("c")
    c["a"] = {"l": items}
    model = copy.deepcopy(items)
    with db.transaction() as tx:
        part = tx[c]["a"]["l"]
        for _ in range(3):
            step = steps.draw(st.sampled_from(["insert", "set", "del", "slice", "reverse"]))
            for one in (part, model):
                if step == "insert":
                    one.insert(at, value)
                elif step == "set" and -len(one) <= at < len(one):
                    one[at] = value
                elif step == "del" and -len(one) <= at < len(one):
                    del one[at]
                elif step == "slice":
                    one[at:] = [value]
                elif step == "reverse":
                    one.reverse()
        assert part == model
    assert c["a"] == {"l": model}
