"""All examples run: those of docstrings, of the guide and of the READMEs."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import flagstone
import pytest
from pages import PAGES, ROOT, of_page
from flagstone import (
    _flagstone,
    edits,
    errors,
    frames,
    models,
    objectid,
    progress,
    pushdown,
    pushdown_pyarrow,
    show,
    views,
)


@pytest.mark.parametrize("name", sorted(_flagstone.__all__))
def test_examples_of_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    thing = getattr(_flagstone, name)
    members = [] if not isinstance(thing, type) else list(vars(thing).items())
    for member, value in [("", thing), *members]:
        text = getattr(value, "__doc__", None) or ""
        if ">>>" not in text:
            continue
        with flagstone.open(tmp_path / f"db-{member}") as db:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(
                text, {"db": db, "flagstone": flagstone}, f"{name}.{member}", None, 0
            )
            result = doctest.DocTestRunner().run(test)
            assert result.attempted and not result.failed
            opened = test.globs.get("db")
            if isinstance(opened, flagstone.Database):
                opened.close()


MODULES = [flagstone, errors, frames, models, objectid, progress, show, views]
INNER = [_flagstone, edits, pushdown, pushdown_pyarrow]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_of_the_package_run(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert not result.failed
    assert result.attempted or module is show


def undescribed(thing: object, name: str) -> Iterator[str]:
    """Returns the names of what a public thing has and does not describe."""
    if not getattr(thing, "__doc__", None):
        yield name
    if isinstance(thing, type) and thing.__module__.startswith("flagstone"):
        for member, value in vars(thing).items():
            if not member.startswith("_") and not getattr(value, "__doc__", None):
                yield f"{name}.{member}"


def test_every_public_thing_is_described() -> None:
    missing: list[str] = []
    for module in MODULES + INNER:
        assert module.__doc__
        for name in getattr(module, "__all__", vars(module)):
            if not name.startswith("_"):
                missing += undescribed(getattr(module, name), f"{module.__name__}.{name}")
    assert missing == []


def test_every_class_has_an_example() -> None:
    public = [name for name in _flagstone.__all__ if not name.startswith("_")]
    classes = [getattr(_flagstone, name) for name in public]
    for thing in classes:
        if isinstance(thing, type):
            assert ">>>" in (thing.__doc__ or ""), thing.__name__
    for call in (flagstone.open, flagstone.scan, flagstone.explain_scan, flagstone.connect):
        assert ">>>" in (call.__doc__ or "")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_are_a_program(page: str, tmp_path: Path) -> None:
    if not (ROOT / page).exists():
        pytest.skip("not in a checkout")
    program = of_page(page)
    assert program
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
