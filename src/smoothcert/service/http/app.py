"""The application: all endpoints of one service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from smoothcert.service.answering import Service
from smoothcert.service.http import schema
from smoothcert.service.http.docs import docs_page
from smoothcert.service.http.guard import Guard, Log, log_line
from smoothcert.service.http.images import image_routes
from smoothcert.service.http.protocol import protocol_routes
from smoothcert.service.http.refusals import add_refusals
from smoothcert.service.http.waiting import Asker

ABOUT = "Certified predictions: every answer comes with a radius below which no perturbation can change it."
TYPES = {"page.css": "text/css", "page.js": "text/javascript"}


def create_app(
    service: Service, *, name: str, version: str, token: str | None = None, loopback: bool = True, log: Log = log_line
) -> ASGIApp:
    """The service as an ASGI application. At its end what was asked is answered, and the run is closed."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="smoothcert", version=version, description=ABOUT, docs_url=None, redoc_url=None, lifespan=life,
        openapi_url="/openapi.json", swagger_ui_oauth2_redirect_url=None,
    )  # fmt: skip
    add_refusals(app)
    asker = Asker(service)
    app.include_router(protocol_routes(asker, name, version))
    app.include_router(image_routes(asker))
    _add_pages(app, service, name)
    _describe(app)
    return Guard(app, metrics=service.metrics, rate=service.limits.rate, token=token, loopback=loopback, log=log)


def _add_pages(app: FastAPI, service: Service, name: str) -> None:
    page = files("smoothcert.service.http") / "page"

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse((page / "page.html").read_text().replace("{{model}}", escape(name)))

    def add(file: str, kind: str) -> None:
        @app.get(f"/{file}", include_in_schema=False)
        async def asset() -> Response:
            return Response((page / file).read_bytes(), media_type=kind)

    for file, kind in TYPES.items():
        add(file, kind)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/metrics", response_class=PlainTextResponse, tags=["Numbers"])
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _describe(app: FastAPI) -> None:
    """Bodies are read by hand, and what is refused is said in our own way: the description says so."""
    found = app.openapi()
    found["components"]["schemas"]["InferenceRequest"] = _schema_of_requests(found)
    for methods in found["paths"].values():
        for one in methods.values():
            one["responses"].pop("422", None)
    for left in ("HTTPValidationError", "ValidationError"):
        found["components"]["schemas"].pop(left, None)
    app.openapi_schema = found


def _schema_of_requests(found: dict[str, object]) -> dict[str, object]:
    whole = schema.InferenceRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    components = found["components"]
    assert isinstance(components, dict)
    components["schemas"] |= whole.pop("$defs", {})
    return whole
