"""For people with curl and for the page: an image file in, a certificate out; and pictures of what noise does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from torch import Tensor

from smoothcert.service.answer import Answer
from smoothcert.service.answering import Votes
from smoothcert.service.errors import AnswerError
from smoothcert.service.http import schema
from smoothcert.service.http.guard import client_of
from smoothcert.service.http.inputs import read_image
from smoothcert.service.http.parameters import NAMES, Parameters
from smoothcert.service.http.refusals import REFUSALS
from smoothcert.service.http.waiting import Asker, read_body
from smoothcert.service.pictures import MOST_COPIES, noisy_copies, perturbed

FILE = {
    "requestBody": {
        "required": True,
        "description": "An image file of the model's own size; 8-bit.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Radius = Annotated[str | None, Query(description="To certify; several with commas: 0.25,0.5.", max_length=200)]
Alpha = Annotated[float | None, Query(description="Allowed probability of a false answer.", gt=0, lt=1)]
Draws = Annotated[int | None, Query(description="Draws.", ge=1, le=100_000_000)]
Deadline = Annotated[float | None, Query(description="Seconds.", gt=0)]
Size = Annotated[
    float, Query(description="How large the perturbation is at most, in the norm of the radius.", gt=0, le=1000)
]
Copies = Annotated[int, Query(ge=1, le=MOST_COPIES)]


def image_routes(asker: Asker) -> APIRouter:
    """Certify an image file, at once or while one looks; noisy copies and perturbed ones."""
    router = APIRouter(tags=["Images"])
    _add_answers(router, asker)
    _add_pictures(router, asker)
    return router


def _add_answers(router: APIRouter, asker: Asker) -> None:
    @router.post("/certify", responses=_answering(model=schema.AnswerResponse), openapi_extra=FILE)
    async def certify(
        request: Request, radius: Radius = None, alpha: Alpha = None, n: Draws = None, deadline: Deadline = None
    ) -> Response:
        """Certify an image: curl --data-binary @digit.png http://localhost:8000/certify."""
        x = await _image(request, asker)
        (answer,) = await asker.answers(request, [x], _parameters(request), client_of(request.scope))
        return JSONResponse(answer.to_json())

    events = _answering(content={"text/event-stream": {}}, description="Events: votes, then answer or error.")

    @router.post("/certify/live", responses=events, openapi_extra=FILE, response_class=StreamingResponse)
    async def certify_live(
        request: Request, radius: Radius = None, alpha: Alpha = None, n: Draws = None, deadline: Deadline = None
    ) -> Response:
        """The same, with the votes as they grow (server-sent events)."""
        x, wanted = await _image(request, asker), _parameters(request)
        heard = asker.events(x, wanted, client_of(request.scope))
        first = await anext(heard)  # what is refused is refused by its status
        return StreamingResponse(_lines(first, heard), media_type="text/event-stream")


def _add_pictures(router: APIRouter, asker: Asker) -> None:
    service = asker.service
    one_at_a_time = asyncio.Semaphore(1)  # pictures are for looking at: they must not slow down answers
    png = _answering(content={"image/png": {}}, description="The copies side by side.")

    @router.post("/noisy", responses=png, openapi_extra=FILE, response_class=Response)
    async def noisy(request: Request, copies: Copies = 8) -> Response:
        """Noisy copies of an image, to look at. They are not those that vote: these are secret."""
        x = await _image(request, asker)
        async with one_at_a_time:
            found = await asyncio.to_thread(noisy_copies, x, service.noise, copies)
        return Response(found, media_type="image/png")

    @router.post("/perturb", responses=_answering(model=schema.PerturbedResponse), openapi_extra=FILE)
    async def perturb(request: Request, size: Size, how: Literal["random", "attack"] = "random") -> Response:
        """An image that differs by at most `size`: in a random direction, or by an attack on the smoothed model."""
        x = await _image(request, asker)
        async with one_at_a_time:
            found = await asyncio.to_thread(perturbed, x, service.smoothed, size, how)
        return JSONResponse({"image": found.data_url, "distance": found.distance})


async def _image(request: Request, asker: Asker) -> Tensor:
    service = asker.service
    body = await read_body(request, service.limits.body)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(asker.threads, read_image, body, service.shape, service.limits.pixels)


def _parameters(request: Request) -> Parameters:
    given = dict(request.query_params)
    return Parameters.parse({name: given[name] for name in NAMES if name in given})


async def _lines(first: Votes | Answer, heard: AsyncGenerator[Votes | Answer]) -> AsyncIterator[bytes]:
    """Server-sent events, one after another."""
    yield _event(first)
    try:
        async for event in heard:
            yield _event(event)
    except AnswerError as error:
        yield b"event: error\ndata: " + json.dumps({"error": str(error)}).encode() + b"\n\n"
    finally:
        await heard.aclose()


def _answering(
    *, model: type[BaseModel] | None = None, content: dict[str, Any] | None = None, description: str = "The answer."
) -> dict[int | str, dict[str, Any]]:
    found = {"model": model, "content": content, "description": description}
    return {200: {name: value for name, value in found.items() if value is not None}} | REFUSALS["ask"]


def _event(event: Votes | Answer) -> bytes:
    if isinstance(event, Answer):
        name, data = "answer", event.to_json()
    else:
        name, data = "votes", {purpose: list(tally.votes) for purpose, tally in event.items()}
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
