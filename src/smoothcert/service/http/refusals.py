"""How what cannot be answered is said: a status, and one sentence."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from smoothcert.core.errors import InputError
from smoothcert.service.errors import AnswerError, ClosingError, TurnedAwayError
from smoothcert.service.http.guard import turned_away
from smoothcert.service.http.schema import ErrorResponse
from smoothcert.service.http.waiting import ClientLeftError, TooLargeError, TooSlowError


class NotFoundError(Exception):
    """There is nothing of that name here."""


_SENTENCES = {
    400: "The request cannot be answered as it is.",
    404: "There is no such model.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    429: "Too much to do, or the client has asked for too much: come back after Retry-After seconds.",
    500: "The question was taken and could not be answered.",
    503: "The server is about to end.",
}
_ASK = (400, 408, 413, 429, 500, 503)


def _said(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorResponse, "description": _SENTENCES[status]} for status in statuses}


REFUSALS: dict[int | str, dict[int | str, dict[str, Any]]] = {404: _said(404), "ask": _said(*_ASK)}
"""What endpoints may answer beside what they are for."""

_STATUS: dict[type[Exception], int] = {
    InputError: 400,
    NotFoundError: 404,
    TooSlowError: 408,
    TooLargeError: 413,
    ClientLeftError: 499,
    AnswerError: 500,
    ClosingError: 503,
}


def add_refusals(app: FastAPI) -> None:
    """Let every endpoint refuse in the same way: {"error": "one sentence"}."""

    async def refuse(_: Request, error: Exception) -> Response:
        headers = {"Retry-After": "5"} if isinstance(error, ClosingError) else None
        status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
        return JSONResponse({"error": str(error)}, status, headers)

    async def not_now(_: Request, error: Exception) -> Response:
        assert isinstance(error, TurnedAwayError)
        return turned_away(error)

    async def other(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        return JSONResponse({"error": f"{error.detail}; see /docs"}, error.status_code, headers)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)

    for kind in _STATUS:
        app.add_exception_handler(kind, refuse)
    app.add_exception_handler(TurnedAwayError, not_now)
    app.add_exception_handler(HTTPException, other)
    app.add_exception_handler(RequestValidationError, invalid)
