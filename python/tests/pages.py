"""The examples of the documents as programs: `python tests/pages.py FOLDER` writes them there,
for type checkers. The tests run them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/guide/python.md", "python/README.md"]
NOTEBOOK = Path(__file__).parents[1] / "examples" / "comments.ipynb"


def of_page(page: str) -> str:
    """Returns the blocks of a page, which are one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))


def of_notebook() -> str:
    """Returns the cells of the notebook, which are one program."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return "\n".join(code)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        name = page.lower().replace("/", "_").removesuffix(".md")
        (folder / f"{name}.py").write_text(of_page(page))
    (folder / "notebook.py").write_text(of_notebook())


if __name__ == "__main__":
    main()
