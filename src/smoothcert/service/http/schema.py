"""What requests and responses look like, for the OpenAPI description; tensors are read by hand (`http.tensors`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Text = Annotated[str, Field(max_length=200)]


class ErrorResponse(BaseModel):
    """One sentence: what is wrong, and the way out."""

    error: str


class SeedKind(BaseModel):
    """Which kind of seed the draws had: a secret, whose hash was published before the first draw."""

    kind: Literal["secret"]
    hash: str


class RouteResponse(BaseModel):
    """Of a routed classifier: no perturbation below `radius` changes whom the router chooses."""

    label: int = Field(description="Which of the classifiers, by ascending strength of noise, or -1: it abstains.")
    radius: float
    p_lower: float
    votes: list[int] = Field(description="Per classifier, of the draws that decided.")
    abstained: bool
    reason: str
    noise: dict[str, Any]


class AnswerResponse(BaseModel):
    """No perturbation with `norm` below `radius` changes the class; false with probability at most `alpha`."""

    label: int = Field(description="The class, or -1: it abstains.")
    class_name: str | None
    radius: float
    norm: str
    p_lower: float = Field(description="Lower bound of the probability of the class under noise.")
    votes: list[int] = Field(description="Per class, of the draws that decided.")
    abstained: bool
    reason: str
    scope: str = Field(description="Which classifier the claim is about.")
    alpha: float
    draws: int
    procedure: dict[str, Any]
    noise: dict[str, Any]
    input_id: str
    route: RouteResponse | None = Field(description="What the router answered; null where there is none.")
    seed: SeedKind
    receipt: str | None = Field(description="Digest of the line of the run; null: not decided in time, not in the run.")
    sentence: str


class PerturbedResponse(BaseModel):
    """A picture near another one."""

    image: str = Field(description="A data: URL of a PNG file.")
    distance: float = Field(description="The l2 distance, after rounding to 8 bits; rounded up.")


class ServerMetadata(BaseModel):
    """Of the Open Inference Protocol."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """Of the Open Inference Protocol."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """Of the Open Inference Protocol; what is answered with stands in `parameters`."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    parameters: dict[str, Any]


class Live(BaseModel):
    """The server runs."""

    live: bool


class Ready(BaseModel):
    """The server answers."""

    ready: bool


class ModelReady(BaseModel):
    """The model answers."""

    name: str
    ready: bool


class RequestParameters(BaseModel):
    """What counts for this request; the rest is as the server was told."""

    radius: float | Text | None = Field(None, description="To certify; several as a text: 0.25,0.5.")
    alpha: float | None = Field(None, description="Allowed probability of a false answer.", gt=0, lt=1)
    n: int | None = Field(None, description="Draws.", ge=1, le=100_000_000)
    deadline: float | None = Field(None, description="Seconds; then what was not decided abstains.", gt=0)
    binary_data_output: bool | None = Field(None, description="All outputs as bytes behind the JSON.")


class InputParameters(BaseModel):
    """Of a tensor whose bytes stand behind the JSON."""

    binary_data_size: int | None = None


class RequestInput(BaseModel):
    """The inputs, raw pixels in [0, 1] (FP32) or 0..255 (UINT8)."""

    name: Literal["input"]
    shape: list[int] = Field(max_length=8)
    datatype: Literal["FP32", "UINT8"]
    parameters: InputParameters | None = None
    data: list[Any] | None = None


class RequestOutput(BaseModel):
    """An output that is wanted."""

    name: Text
    parameters: dict[str, Any] | None = None


class InferenceRequest(BaseModel):
    """Of the Open Inference Protocol."""

    id: Text | None = None
    parameters: RequestParameters | None = None
    inputs: list[RequestInput] = Field(min_length=1, max_length=1)
    outputs: list[RequestOutput] | None = None


class ResponseOutput(BaseModel):
    """An output tensor; with `binary_data_size` its bytes stand behind the JSON."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class InferenceResponse(BaseModel):
    """Of the Open Inference Protocol."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: list[ResponseOutput]
