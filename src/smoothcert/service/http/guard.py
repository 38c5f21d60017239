"""What stands before every request: who may ask, how often, and with which headers answers leave. And the log."""

from __future__ import annotations

import hmac
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothcert.service.budget import Rate
from smoothcert.service.errors import TurnedAwayError
from smoothcert.service.metrics import Metrics

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
OPEN = ("/", "/page.css", "/page.js", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready")
"""What needs no token: nothing of it asks the model."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")

Log = Callable[[Mapping[str, Any]], None]


def log_line(event: Mapping[str, Any]) -> None:
    """One line of JSON on standard error. What was asked about is never in it."""
    print(json.dumps({"time": round(time.time(), 3), **event}), file=sys.stderr, flush=True)


class Guard:
    """Around the whole application. Not a middleware that would hide from it whether the client has left."""

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, rate: float, token: str | None, loopback: bool, log: Log
    ) -> None:
        self._app, self._metrics, self._log, self._token, self._loopback = app, metrics, log, token, loopback
        self._rate = Rate(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on; count and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 499  # as servers note it when a client has left before the answer

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self._metrics.in_progress.inc()
        try:
            refusal = self._refusal(scope)
            await (refusal or self._app)(scope, receive, sending)
        finally:
            self._metrics.in_progress.dec()
            seconds = time.perf_counter() - begun
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(scope["method"] if path != "other" else "any", path, str(status)).inc()
            self._metrics.latency.labels(path).observe(seconds)
            about = {"client": client_of(scope), "method": scope["method"][:10], "path": path, "status": status}
            self._log({"event": "request", **about, "seconds": round(seconds, 6)})

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if self._loopback and _host(headers.get("host", "")) not in LOOPBACK:
            # A page of somebody else's whose name was made to mean this machine.
            return _refused(403, "this server answers as localhost only; start it with --host for others")
        origin = headers.get("origin")
        if scope["method"] != "GET" and origin is not None and origin.partition("://")[2] != headers.get("host"):
            return _refused(403, "pages of other sites may not ask; send the request without an Origin")
        if self._token is not None and scope["path"] not in OPEN:
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                response = _refused(401, "give the token of this server: Authorization: Bearer TOKEN")
                response.headers["WWW-Authenticate"] = "Bearer"
                return response
        try:
            self._rate.take(client_of(scope))
        except TurnedAwayError as error:
            return turned_away(error)
        return None


def turned_away(error: TurnedAwayError) -> JSONResponse:
    """429, and when to come back."""
    response = _refused(429, str(error))
    response.headers["Retry-After"] = str(max(1, round(error.retry_after + 0.5)))
    return response


def client_of(scope: Scope) -> str:
    """Who asks: the address. What a request says of itself could be anything."""
    return scope["client"][0] if scope.get("client") else "unknown"


def _host(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)
