"""Run the notebooks and keep what they print in them: python docs/run_notebooks.py [NAME ...].

Each runs from top to bottom in a folder of its own. The site shows a notebook with what it printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"


def executed(path: Path, folder: Path) -> dict[str, Any]:
    """The notebook after all its cells ran in `folder`, each with what it printed."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for number, cell in enumerate(cell for cell in content["cells"] if cell["cell_type"] == "code"):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), path.name, "exec"), names)
            lines = [line.rstrip() + "\n" for line in printed.getvalue().splitlines()]
            cell["execution_count"] = number + 1
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    return content


if __name__ == "__main__":
    os.environ["COLUMNS"] = "120"  # tables fit a page of the site
    chosen = [NOTEBOOKS / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for notebook in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            text = json.dumps(executed(notebook, Path(scratch)), indent=1, ensure_ascii=False)
        notebook.write_text(text + "\n", encoding="utf-8")
        print(notebook)
