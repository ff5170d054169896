"""The notebook of the examples runs from its first cell to its last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import NOTEBOOK, of_notebook

# What a cell returns is shown in a notebook; here its plot is drawn into a file.
LAST = """
figure.savefig("plot.png", dpi=60)
assert {text.get_text() for text in axes.texts} >= {name for name, *_ in COMMUNITIES}
"""


@pytest.mark.skipif(not NOTEBOOK.exists(), reason="not in a checkout")
def test_the_notebook_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", of_notebook() + LAST],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "85,000 comments" in done.stdout
    assert (tmp_path / "plot.png").stat().st_size > 20_000


@pytest.mark.skipif(not NOTEBOOK.exists(), reason="not in a checkout")
def test_the_notebook_is_stored_with_its_plot() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.skipif(not NOTEBOOK.exists(), reason="not in a checkout")
def test_the_install_line_of_the_notebook_has_what_it_imports() -> None:
    """It lacked pandas, which `.df()` of DuckDB needs."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    [line] = [line for line in cells[0]["source"] if "pip install" in line]
    assert '"./python[duckdb,pandas,polars]" matplotlib' in line
    project = NOTEBOOK.parents[1] / "pyproject.toml"
    extras = {line.split(" = ")[0] for line in project.read_text().splitlines() if " = [" in line}
    assert {"duckdb", "pandas", "polars"} <= extras
    # A figure that stays open is drawn by the cell, and once more as its value.
    assert of_notebook().rstrip().count("plt.close(figure)") == 1
