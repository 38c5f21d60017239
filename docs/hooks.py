"""What the site is built with: pages made from the commands, the notebooks and the files beside `docs`, and a check.

mkdocs calls the functions by their names. A public name of the package that no page of the reference shows, or that has
no docstring, is an error: the site is not built.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = {
    "index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md", "cite.md": "CITATION.cff",
}  # fmt: skip


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made and not written."""
    if missing := undocumented():
        raise PluginError("not in the reference, or without a docstring: " + ", ".join(missing))
    made = {page: beside(ROOT / name) for page, name in BESIDE.items()}
    made |= {f"notebooks/{path.stem}.md": notebook_page(path) for path in sorted((DOCS / "notebooks").glob("*.ipynb"))}
    made["reference/commands.md"], made["reference/zoo.md"] = commands_page(), zoo_page()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """What explains comes first in a search, and the changelog, which mentions everything, last."""
    folder = page.file.src_uri.split("/")[0]
    page.meta["search"] = {"boost": {"concepts": 3, "howto": 3, "changes.md": 0.1}.get(folder, 1)}
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Keep the options of commands whole, where a line wraps: browsers break after a hyphen."""
    return re.sub(
        r'<div class="language-bash.*?</div>',
        lambda block: re.sub(r"(?<=[\s>])--?[a-z][\w-]*", r'<span class="option">\g<0></span>', block[0]),
        html,
        flags=re.S,
    )


def undocumented() -> list[str]:
    """Public names that no page of the reference shows, and those without a docstring."""
    import smoothcert  # noqa: PLC0415 (only when a site is built)

    shown = set()
    for page in sorted((DOCS / "reference").glob("*.md")):
        shown |= {place.rsplit(".", 1)[-1] for place in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.M)}
        shown |= set(re.findall(r"^#+ `sc\.(\w+)`", page.read_text("utf-8"), re.M))
    silent = [
        name for name in smoothcert.__all__ if name != "ABSTAIN" and not inspect.getdoc(getattr(smoothcert, name))
    ]
    return sorted((set(smoothcert.__all__) - shown) | set(silent))


def beside(path: Path) -> str:
    """A file of the repository as a page: its links to others and into `docs` lead to the pages themselves."""
    text = path.read_text("utf-8").replace("](docs/", "](")
    for page, name in BESIDE.items():
        text = text.replace(f"]({name})", f"]({page})")
    return text if path.suffix == ".md" else f"# How to cite\n\n```yaml\n{text}```\n"


def notebook_page(path: Path) -> str:
    """A notebook as a page: text, code, and what was printed; the file itself is there to be downloaded."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        printed = "".join("".join(output.get("text", "")) for output in cell.get("outputs", ()))
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    parts[0] = "---\nhide: [toc]\n---\n\n" + parts[0]  # no headings to list: room for what is printed
    parts.insert(1, f"[Download this notebook]({path.name}); it takes seconds and downloads nothing.")
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Every command with its options, as its help has them."""
    from smoothcert.cli import app  # noqa: PLC0415

    root: Any = typer.main.get_command(app)
    parts = [
        "# Commands",
        "Made from the commands themselves when this site is built. `smoothcert COMMAND --help` prints the same. "
        "Every command takes `--plugin FILE`: Python with a noise, a procedure or a network of your own, which is run.",
    ]
    for name, command in root.commands.items():
        parts += [f"## smoothcert {name}", paragraphs(command.help), *described(command)]
        for part, one in getattr(command, "commands", {}).items():
            parts += [f"### smoothcert {name} {part}", paragraphs(one.help), *described(one)]
    return "\n\n".join(part for part in parts if part) + "\n"


def zoo_page() -> str:
    """The card of every packaged model, with the numbers that follow from its records."""
    from smoothcert.workflows.zoo import all_in_full  # noqa: PLC0415

    parts = [
        "# Model cards",
        "Models that come with the package, small and trained by its own recipes. The numbers follow from the records "
        "beside each model; `smoothcert zoo NAME` prints them, with the command that verifies these records.",
    ]
    for model in all_in_full():
        low, high = model["acr_interval"]
        rows = {
            "what": model["about"],
            "trained on": model["data"],
            "trained by": f"`{model['command']}`",
            "certified on": f"{model['inputs']} test images: `{model['certified_on']}`",
            "draws for each of them": f"{model['draws_per_input']:,}",
            "average certified radius": f"{model['acr']:.4f} (95%: {low:.4f} to {high:.4f})",
            "right, with a radius above 0": f"{model['certified_accuracy_at_0']:.1%}",
            "meant for": "trying smoothcert, and the examples of these pages; no product should rest on it",
        }
        lines = [f"| {name} | {cell(text)} |" for name, text in rows.items()]
        parts += [f"## `zoo:{model['name']}`", "\n".join(["| | |", "|---|---|", *lines])]
    return "\n\n".join(parts) + "\n"


def described(command: Any) -> list[str]:
    """A table of what a command takes, and its examples."""
    rows = [row(parameter) for parameter in command.params if parameter.name not in ("help", "plugin")]
    examples = re.findall(r"^smoothcert .*$", command.epilog or "", re.M)
    shown = "\n".join(examples)
    return ["\n".join(["| option | what it does | default |", "|---|---|---|", *rows]) if rows else "",
            f"```text\n{shown}\n```" if examples else ""]  # fmt: skip


def row(parameter: Any) -> str:
    """One option or argument."""
    from smoothcert.cli.choices import filled  # noqa: PLC0415

    names = [*parameter.opts, *parameter.secondary_opts]
    called = (
        ", ".join(f"`{name}`" for name in names)
        if parameter.param_type_name == "option"
        else f"`{parameter.name.upper()}`"
    )
    default = parameter.default
    shown = "" if callable(default) or default in (None, (), [], False) else f"`{default}`"
    help_text = cell(filled(getattr(parameter, "help", None)) or "").replace("*", "\\*")
    return f"| {called} | {help_text} | {'*must be given*' if parameter.required else shown} |"


def cell(text: str) -> str:
    """Text inside a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("{", "&#123;")


def paragraphs(text: str | None) -> str:
    """A command's help without the words that click has for line ends."""
    return inspect.cleandoc(text or "").replace("\b", "").replace("<", "&lt;")
