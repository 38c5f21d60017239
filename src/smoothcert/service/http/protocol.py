"""The Open Inference Protocol (KServe v2) over HTTP: clients that know it work unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from smoothcert.core.errors import InputError
from smoothcert.service.answer import Answer
from smoothcert.service.http import schema
from smoothcert.service.http.guard import client_of
from smoothcert.service.http.inputs import read_tensor
from smoothcert.service.http.parameters import Parameters
from smoothcert.service.http.refusals import REFUSALS, NotFoundError
from smoothcert.service.http.tensors import HEADER, Values, read_input, split_body, write_outputs
from smoothcert.service.http.waiting import Asker, read_body

VERSION = "1"
OUTPUTS = {
    "label": "INT64",
    "class_name": "BYTES",
    "radius": "FP64",
    "norm": "BYTES",
    "p_lower": "FP64",
    "votes": "INT64",
    "abstained": "BOOL",
    "reason": "BYTES",
    "scope": "BYTES",
    "alpha": "FP64",
    "draws": "INT64",
    "key": "BYTES",
    "receipt": "BYTES",
}
BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/InferenceRequest"}}},
    }
}


def tensors(answers: Sequence[Answer]) -> dict[str, Values]:
    """Answers as tensors, (B,) each; votes are (B, C)."""
    ones = [answer.certificate for answer in answers]
    return {
        "label": np.array([one.label for one in ones], dtype=np.int64),
        "class_name": [answer.class_name or "" for answer in answers],
        "radius": np.array([one.radius for one in ones], dtype=np.float64),
        "norm": [one.norm for one in ones],
        "p_lower": np.array([one.p_lower for one in ones], dtype=np.float64),
        "votes": np.array([answer.votes for answer in answers], dtype=np.int64),
        "abstained": np.array([one.abstained for one in ones], dtype=np.bool_),
        "reason": [one.reason for one in ones],
        "scope": [one.scope.value for one in ones],
        "alpha": np.array([one.alpha for one in ones], dtype=np.float64),
        "draws": np.array([one.draws for one in ones], dtype=np.int64),
        "key": [one.key or "" for one in ones],
        "receipt": [answer.receipt or "" for answer in answers],
    }


def protocol_routes(asker: Asker, name: str, version: str) -> APIRouter:
    """Health, metadata and inference of one model, called `name`."""
    router, service = APIRouter(tags=["Open Inference Protocol"]), asker.service

    def known(model: str, number: str = VERSION) -> None:
        if (model, number) != (name, VERSION):
            raise NotFoundError(f"there is no such model here; the model is called {name}, version {VERSION}")

    @router.get("/v2")
    async def server_metadata() -> schema.ServerMetadata:
        """Which server it is."""
        return schema.ServerMetadata(name="smoothcert", version=version, extensions=["binary_tensor_data"])

    @router.get("/v2/health/live")
    async def live() -> schema.Live:
        """The server runs."""
        return schema.Live(live=True)

    @router.get("/v2/health/ready", responses={503: {"model": schema.Ready}})
    async def ready() -> Response:
        """The server takes questions."""
        return JSONResponse({"ready": not service.closing}, 503 if service.closing else 200)

    @router.get("/v2/models/{model}", responses=REFUSALS[404])
    @router.get("/v2/models/{model}/versions/{number}", responses=REFUSALS[404])
    async def model_metadata(model: str, number: str = VERSION) -> schema.ModelMetadata:
        """What the model takes and answers; with which noise, procedure and key."""
        known(model, number)
        return schema.ModelMetadata(**_metadata(asker, name))

    @router.get("/v2/models/{model}/ready", responses=REFUSALS[404])
    @router.get("/v2/models/{model}/versions/{number}/ready", responses=REFUSALS[404])
    async def model_ready(model: str, number: str = VERSION) -> schema.ModelReady:
        """The model answers."""
        known(model, number)
        return schema.ModelReady(name=name, ready=not service.closing)

    answers: dict[int | str, Any] = {200: {"model": schema.InferenceResponse}} | REFUSALS["ask"] | REFUSALS[404]

    @router.post("/v2/models/{model}/infer", responses=answers, openapi_extra=BODY)
    @router.post("/v2/models/{model}/versions/{number}/infer", responses=answers, openapi_extra=BODY)
    async def infer(request: Request, model: str, number: str = VERSION) -> Response:
        """Certify a batch of inputs: JSON, or tensors as bytes behind it (Inference-Header-Content-Length)."""
        known(model, number)
        return await _inferred(request, asker, name)

    return router


async def _inferred(request: Request, asker: Asker, name: str) -> Response:
    service = asker.service
    content, rest = split_body(await read_body(request, service.limits.body), request.headers.get(HEADER))
    given = content.get("parameters") or {}
    if not isinstance(given, dict):
        raise InputError("parameters must be an object")
    if not isinstance(said := content.get("id", ""), str | None):
        raise InputError("id must be a text")
    numbers = read_input(content, rest, service.limits.inputs, service.shape)
    inputs = read_tensor(numbers, service.shape, service.input_range, service.noise)
    parameters = Parameters.parse({key: value for key, value in given.items() if value is not None})
    write_outputs(dict.fromkeys(OUTPUTS, ()), content, {})  # what cannot be answered is refused before
    found = await asker.answers(request, [x.clone() for x in inputs], parameters, client_of(request.scope))
    about = {"model_name": name, "model_version": VERSION} | ({"id": said} if said else {})
    body, length = write_outputs(tensors(found), content, about)
    if length is None:
        return Response(body, media_type="application/json")
    return Response(body, headers={HEADER: str(length)}, media_type="application/octet-stream")


def _metadata(asker: Asker, name: str) -> dict[str, Any]:
    service = asker.service
    shapes = {"votes": [-1, service.smoothed.num_classes]}
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "smoothcert",
        "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, *service.shape]}],
        "outputs": [{"name": one, "datatype": kind, "shape": shapes.get(one, [-1])} for one, kind in OUTPUTS.items()],
        "parameters": {
            "noise": service.noise.describe(),
            "procedure": service.procedure.describe(),
            "class_names": list(service.class_names),
            "fingerprint": service.engine.description.get("fingerprint"),
            "key": service.key_hash,
            "most_inputs": service.limits.inputs,
        },
    }
