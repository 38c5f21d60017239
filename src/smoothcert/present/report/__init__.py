"""The report: one HTML file that opens anywhere, offline, and shows what is proved, for which inputs, and how.

Everything is in the file (data as JSON, style, script, pictures); it asks the network for nothing, and says so to the
browser with a content security policy. No torch.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from smoothcert.analysis.results import Results
from smoothcert.core.errors import InputError
from smoothcert.core.files import write_whole
from smoothcert.present.report.about import About, Audited, Example
from smoothcert.present.report.content import Ahead, page_model

__all__ = ["About", "Ahead", "Audited", "Example", "render", "write_report"]

SCRIPTS = ("core.js", "chart.js", "tables.js", "certainty.js", "about.js", "inputs.js", "script.js")

Images = Mapping[str, Mapping[int, npt.NDArray[np.uint8]]]


def write_report(
    results: Sequence[Results],
    path: str | Path,
    *,
    images: Images | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    radii: Sequence[float] | None = None,
    command: str = "",
    about: Mapping[str, About] | None = None,
    published: Mapping[str, Ahead | None] | None = None,
) -> Path:
    """Write the report of one or several results to one self-contained HTML file; equal results give an equal file.

    `images` holds, by the name of a result, the picture of each input, uint8 (C, H, W) with 1 or 3 channels; results
    and inputs may be missing. `class_names` holds, by the name of a result, what its classes are called. `radii` are
    the columns of the table, `command` is what a reader can type to make the report again. `about` holds, by the name
    of a result, when and how it was made, what an audit found, and a few inputs under noise. `published` names results
    of others, whose ACR is rounded as they do it, and says how far the first result is ahead.

    It appears whole or not at all: a failure leaves what was there before.
    """
    path = Path(path)
    model = page_model(
        results,
        images=images or {},
        class_names=class_names or {},
        radii=radii,
        command=command,
        about=about or {},
        published=published or {},
    )
    text = render(model)
    try:
        write_whole(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); give a file in a folder that exists") from None
    return path


def render(model: Mapping[str, Any]) -> str:
    """The page of a model (see `content.page_model`)."""
    sentences = [*model["warnings"], *(run["sentence"] for run in model["runs"])]
    return Template(_part("page.html")).substitute(
        title=html.escape(", ".join(run["name"] for run in model["runs"])),
        style=_part("style.css"),
        model=_embedded(model),
        script="\n".join(_part(name) for name in SCRIPTS),
        sentences="\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences),
    )


def _part(name: str) -> str:
    return (files("smoothcert.present.report") / name).read_text(encoding="utf-8")


def _embedded(model: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can take for anything else: without `<` no name can end the script element."""
    text = json.dumps(model, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
