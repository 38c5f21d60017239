"""Help comes at once: nothing heavy is imported for it."""

import subprocess
import sys

from smoothcert.present.figures import FIGURES

HEAVY = ("torch", "pandas", "matplotlib", "scipy", "numpy", "sklearn", "pydantic")
CODE = f"""
import sys
sys.argv = ["smoothcert", "analyze", "--help"]
from smoothcert.cli import main
try:
    main()
finally:
    print("imported:", [name for name in {HEAVY} if name in sys.modules])
"""


def test_help_of_analyze_imports_nothing_heavy_and_lists_the_figures() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "imported: []", done.stderr
    words = " ".join(done.stdout.replace("│", " ").split())
    assert f"Of the figure: {', '.join(sorted(FIGURES))}. Default: curves." in words
