"""All examples run: those of docstrings, of the guide and of the READMEs."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import flagstone
import pytest
from pages import PAGES, ROOT, of_page
from flagstone import _flagstone


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


def test_the_example_of_the_package_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(flagstone)
    assert result.attempted and not result.failed


def test_every_public_thing_is_described() -> None:
    for name in flagstone.__all__:
        thing = getattr(flagstone, name)
        assert thing.__doc__, name
        if isinstance(thing, type) and thing.__module__ == "flagstone._flagstone":
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(value):
                    assert value.__doc__, f"{name}.{member}"


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
