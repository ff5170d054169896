"""A keyspace is a mutable mapping of bytes to bytes, with ranges."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, MutableMapping
from typing import Any

import flagstone
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

KEYS = st.binary(min_size=1, max_size=3)
VALUES = st.binary(max_size=8)
BOUNDS = st.none() | KEYS


class Laws(RuleBasedStateMachine):
    """Does the same with a keyspace and with a dict, and compares what they return."""

    db: flagstone.Database
    runs = 0

    @initialize()
    def begin(self) -> None:
        Laws.runs += 1
        self.kv = self.db.keyspace(f"laws-{Laws.runs}")
        self.model: dict[bytes, bytes] = {}

    def both(self, call: str, *arguments: object) -> None:
        results: list[object] = []
        for mapping in (self.kv, self.model):
            try:
                results.append(getattr(mapping, call)(*arguments))
            except KeyError as error:
                results.append(("KeyError", error.args))
        assert results[0] == results[1]

    @rule(key=KEYS, value=VALUES)
    def set(self, key: bytes, value: bytes) -> None:
        self.both("__setitem__", key, value)

    @rule(key=KEYS)
    def read(self, key: bytes) -> None:
        self.both("__getitem__", key)
        self.both("get", key)
        self.both("get", key, b"default")
        self.both("__contains__", key)

    @rule(key=KEYS)
    def remove(self, key: bytes) -> None:
        self.both("__delitem__", key)

    @rule(key=KEYS)
    def pop(self, key: bytes) -> None:
        self.both("pop", key)
        self.both("pop", key, None)

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key: bytes, value: bytes) -> None:
        self.both("setdefault", key, value)

    @rule(pairs=st.dictionaries(KEYS, VALUES, max_size=5), as_pairs=st.booleans())
    def update(self, pairs: dict[bytes, bytes], as_pairs: bool) -> None:
        self.both("update", list(pairs.items()) if as_pairs else pairs)

    @rule()
    def popitem(self) -> None:
        if not self.model:
            with pytest.raises(KeyError):
                self.kv.popitem()
            return
        first = min(self.model)
        assert self.kv.popitem() == (first, self.model.pop(first))

    @rule(start=BOUNDS, end=BOUNDS)
    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        if start is not None and end is not None and start > end:
            return
        self.kv.delete_range(start, end)
        for key in list(self.model):
            if (start is None or key >= start) and (end is None or key < end):
                del self.model[key]

    @rule()
    def whole(self) -> None:
        model = dict(sorted(self.model.items()))
        assert list(self.kv) == list(model)
        assert list(reversed(self.kv)) == list(reversed(model))
        assert len(self.kv) == len(model) and bool(self.kv) == bool(model)
        assert self.kv == model and model == self.kv
        assert self.kv != {**model, b"\xff" * 5: b""}
        assert list(self.kv.keys()) == list(model.keys())
        assert list(self.kv.values()) == list(model.values())
        assert list(self.kv.items()) == list(model.items())
        assert self.kv.keys() == model.keys() and self.kv.items() == model.items()
        assert self.kv.keys() & {b"a"} == model.keys() & {b"a"}
        assert self.kv.get_many([*model, b"\xff" * 5]) == [*model.values(), None]

    @rule(start=BOUNDS, end=BOUNDS, reverse=st.booleans())
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> None:
        def holds(key: bytes) -> bool:
            return (start is None or key >= start) and (end is None or key < end)

        expected = sorted(filter(holds, self.model), reverse=reverse)
        keys = self.kv.keys(start, end, reverse=reverse)
        assert list(keys) == expected and len(keys) == len(expected)
        assert list(reversed(keys)) == expected[::-1]
        items = self.kv.items(start=start, end=end, reverse=reverse)
        assert list(items) == [(key, self.model[key]) for key in expected]
        for key in self.model:
            assert (key in keys) == holds(key)
            assert ((key, self.model[key]) in items) == holds(key)

    @rule(prefix=st.binary(max_size=2))
    def prefix(self, prefix: bytes) -> None:
        expected = sorted(key for key in self.model if key.startswith(prefix))
        values = self.kv.values(prefix=prefix)
        assert list(values) == [self.model[key] for key in expected]
        assert all(self.model[key] in values for key in expected)


def test_a_keyspace_obeys_the_laws_of_mappings(db: flagstone.Database) -> None:
    Laws.db = db
    run_state_machine_as_test(Laws)


def test_a_keyspace_is_a_mutable_mapping(kv: flagstone.Keyspace) -> None:
    assert isinstance(kv, MutableMapping)
    kv.update({b"a": b"1"})
    match kv:
        case {b"a": value}:
            assert value == b"1"
        case _:
            pytest.fail("the pattern of a mapping does not match")
    assert isinstance(kv.items(), Mapping) is False


def test_bytes_of_all_kinds_are_keys_and_values(kv: flagstone.Keyspace) -> None:
    kv[bytearray(b"a")] = memoryview(b"1")
    assert kv[memoryview(b"a")] == b"1"


@pytest.mark.parametrize("wrong", ["text", 1, None, ["a"]])
def test_another_type_is_a_type_error_that_names_both(
    kv: flagstone.Keyspace, wrong: Any
) -> None:
    found = type(wrong).__name__
    for call in (
        lambda: kv[wrong],
        lambda: kv.__setitem__(b"a", wrong),
        lambda: kv.update({b"a": wrong}),
        lambda: wrong in kv,
    ):
        with pytest.raises(TypeError, match=f"expected bytes, found {found}"):
            call()
    assert not kv


def test_a_key_out_of_bounds_is_invalid_input(kv: flagstone.Keyspace) -> None:
    for key in (b"", b"x" * 65536):
        with pytest.raises(flagstone.InvalidInput):
            kv[key] = b""
    with pytest.raises(ValueError):
        kv[b""] = b""


def test_an_update_of_many_entries_is_complete(kv: flagstone.Keyspace) -> None:
    entries = {n.to_bytes(4, "big"): bytes([n % 251]) * 100 for n in range(20_000)}
    kv.update(iter(entries.items()))
    assert dict(kv.items()) == entries
    assert 10_000 < kv.approximate_len() < 40_000


def test_an_iterator_sees_the_moment_of_its_beginning(kv: flagstone.Keyspace) -> None:
    kv.update((n.to_bytes(2, "big"), b"old") for n in range(1000))
    values = iter(kv.values())
    assert next(values) == b"old"
    kv.update((n.to_bytes(2, "big"), b"new") for n in range(1000))
    kv.delete_range()
    assert list(values) == [b"old"] * 999
    assert list(kv) == []


def test_a_prefix_goes_with_no_other_bound(kv: flagstone.Keyspace) -> None:
    with pytest.raises(flagstone.InvalidInput, match="found both"):
        list(kv.keys(start=b"a", prefix=b"a"))


def test_an_entry_expires(kv: flagstone.Keyspace) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    kv.put(b"gone", b"", expires=now - datetime.timedelta(seconds=1))
    kv.put(b"there", b"", expires=datetime.timedelta(hours=1))
    kv.put(b"stays", b"")
    assert b"gone" not in kv and b"there" in kv
    expiry = kv.expiry(b"there")
    assert expiry is not None
    assert abs(expiry - now - datetime.timedelta(hours=1)) < datetime.timedelta(minutes=1)
    assert kv.expiry(b"stays") is None and kv.expiry(b"gone") is None
    kv.put(b"late", b"", expires=datetime.timedelta.max)
    late = kv.expiry(b"late")
    assert late is not None and late.year == 9999
    with pytest.raises(TypeError, match="time zone"):
        kv.put(b"a", b"", expires=datetime.datetime.now())
    with pytest.raises(TypeError, match="expected a timedelta"):
        kv.put(b"a", b"", expires=5)  # type: ignore[arg-type]


def test_views_say_what_they_show(kv: flagstone.Keyspace) -> None:
    assert repr(kv) == '<flagstone.Keyspace "kv">'
    assert repr(kv.keys(prefix=b"a", reverse=True)) == (
        "KeysOfRange(<flagstone.Keyspace \"kv\">, prefix=b'a', reverse=True)"
    )
