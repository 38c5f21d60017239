"""The endpoints as a page: made here from the OpenAPI description, so that nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>smoothcert: endpoints</title>
<link rel="stylesheet" href="/page.css"></head><body class="docs"><header><h1>Endpoints</h1>
<p>The machine's version: <a href="/openapi.json">openapi.json</a>. The page to try: <a href="/">here</a>.</p></header>
<main>"""
TAIL = "</main></body></html>"


def docs_page(description: Mapping[str, Any]) -> str:
    """HTML of an OpenAPI description."""
    parts = [HEAD]
    for path, methods in description["paths"].items():
        for method, one in methods.items():
            parts.append(f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(one.get('description', one.get('summary', '')))}</p>")
            parts.append(_parameters(one.get("parameters", ())))
            said = (f"<li><b>{escape(code)}</b> {escape(_about(r))}</li>" for code, r in one["responses"].items())
            parts.append(f"<ul>{''.join(said)}</ul></section>")
    return "".join([*parts, TAIL])


def _parameters(parameters: Any) -> str:
    rows = "".join(
        f"<li><code>{escape(p['name'])}</code> ({escape(p['in'])}) {escape(p.get('description', ''))}</li>"
        for p in parameters
    )
    return f"<ul>{rows}</ul>" if rows else ""


def _about(response: Mapping[str, Any]) -> str:
    for content in response.get("content", {}).values():
        name = str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]
        return f"{response['description']} {name}".strip()
    return str(response["description"])
