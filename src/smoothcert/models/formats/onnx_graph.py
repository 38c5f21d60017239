"""What an ONNX file must be before any runtime sees it: whole, no code of its own, one image in, scores out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from smoothcert.core.errors import InputError
from smoothcert.models.formats.reading import MOST_BYTES, model_bytes

WAY_OUT = "or wrap it in Python: --model my_models.py:net"
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}  # whose operators the runtimes have themselves
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
TAKEN = {1: "float32", 10: "float16", 11: "float64"}  # TensorProto.DataType
EIGHT_BITS = {2, 3}  # uint8, int8
WEIGHTS = {*TAKEN, *EIGHT_BITS, 16}  # and bfloat16


@dataclass(frozen=True)
class Interface:
    """What goes into a graph and what comes out of it; None: the file does not say."""

    takes: str
    batch: int | None
    input_shape: tuple[int, ...] | None
    output: str
    num_classes: int | None
    precision: str


def parsed(path: Path, content: bytes) -> Any:
    """The model as protobuf has it; what is no ONNX file is refused."""
    import onnx  # noqa: PLC0415 (an extra)

    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # of protobuf, whose errors have no class that lasts
        raise InputError(f"{path} is not a whole ONNX file; copy or export it again") from None
    if not model.graph.node or not model.graph.output:
        raise InputError(f"{path} holds no network: its ONNX graph is empty; export it again")
    return model


def check_operators(path: Path, model: Any) -> None:
    """Refuse operators that need a library of somebody's, and those that draw at random: f must be a fixed function."""
    own = {(function.domain, function.name) for function in model.functions}
    for node in _nodes(model):
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in own:
            raise InputError(
                f"{path} uses the custom operator {node.domain}:{node.op_type}, which needs code of its maker; export "
                f"it with standard operators, {WAY_OUT}"
            )
        if node.op_type in RANDOM:
            raise InputError(
                f"{path} draws at random ({node.op_type}), and smoothing needs a fixed function; export it in "
                "evaluation mode"
            )


def external_data(path: Path, model: Any) -> dict[str, bytes]:
    """The files with weights that the graph names, by location: beside it or below, and nowhere else."""
    found: dict[str, bytes] = {}
    for tensor in _tensors(model):
        if tensor.data_location != 1:  # EXTERNAL
            continue
        location = _facts(tensor).get("location", "")
        if location not in found:
            found[location] = model_bytes(_beside(path, location))
        if sum(map(len, found.values())) > MOST_BYTES:
            raise InputError(
                f"{path} has more than 2 GiB of weights, which no ONNX graph in one piece can hold; {WAY_OUT}"
            )
    return found


def inlined(path: str | Path, model: Any, external: dict[str, bytes]) -> Any:
    """The model with all weights inside; a place in a file that is not there is refused."""
    for tensor in _tensors(model):
        if tensor.data_location != 1:
            continue
        facts = _facts(tensor)
        content = external[facts.get("location", "")]
        try:
            offset = int(facts.get("offset", 0))
            length = int(facts.get("length", len(content) - offset))
        except ValueError:
            offset = length = -1
        if offset < 0 or length < 0 or offset + length > len(content):
            raise InputError(f"{path} names weights that its data file does not hold; copy both files again")
        tensor.raw_data = content[offset : offset + length]
        tensor.ClearField("external_data")
        tensor.data_location = 0
    return model


def interface(path: Path, model: Any) -> Interface:
    """What the graph takes and answers; one that is no classifier of real numbers is refused."""
    graph = model.graph
    constants = {one.name for one in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise InputError(
            f"{path} must take one input, the image, but takes {names}; fix the others at export, {WAY_OUT}"
        )
    given = inputs[0].type.tensor_type
    if given.elem_type not in TAKEN:
        import onnx  # noqa: PLC0415 (an extra)

        kind = onnx.TensorProto.DataType.Name(given.elem_type).lower() if given.elem_type else "no tensor"
        raise InputError(
            f"{path} takes {kind} numbers ({inputs[0].name}), but noise makes real numbers of inputs; leave the "
            f"conversion inside of the graph at export, {WAY_OUT}"
        )
    rows, *sizes = [dim.dim_value if dim.dim_value > 0 else None for dim in given.shape.dim] or [None]
    shape = tuple(size for size in sizes if size is not None)
    output, num_classes = _scores(path, graph)
    takes = TAKEN[given.elem_type]
    weights = {tensor.data_type for tensor in _tensors(model)}
    precision = "int8" if weights & EIGHT_BITS else takes
    known = bool(sizes) and len(shape) == len(sizes)
    return Interface(takes, rows, shape if known else None, output, num_classes, precision)


def only_output(model: Any, name: str) -> Any:
    """The model with that output alone: backends take the first one."""
    kept = [value for value in model.graph.output if value.name == name]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    return model


def _scores(path: Path, graph: Any) -> tuple[str, int | None]:
    """The output that has a score per class, (B, C), and C if it is known."""
    real = [value for value in graph.output if value.type.tensor_type.elem_type in TAKEN]
    unknown = [value for value in real if not value.type.tensor_type.HasField("shape")]
    ranked = [value for value in real if len(value.type.tensor_type.shape.dim) == 2]
    fitting = ranked if len(real) > 1 else ranked or unknown
    if len(fitting) != 1:
        names = ", ".join(f"{value.name} {_shape(value)}" for value in graph.output)
        raise InputError(
            f"{path} must answer a score per class, (batch, classes), in one output, but answers {names}; export the "
            f"scores alone, {WAY_OUT}"
        )
    dims = fitting[0].type.tensor_type.shape.dim
    classes = dims[1].dim_value if len(dims) == 2 and dims[1].dim_value > 0 else None
    if classes == 1:
        raise InputError(f"{path} answers one number per input, not a score per class; {WAY_OUT[3:]}")
    return str(fitting[0].name), classes


def _shape(value: Any) -> str:
    dims = value.type.tensor_type.shape.dim
    return "(" + ", ".join(dim.dim_param or str(dim.dim_value or "?") for dim in dims) + ")"


def _facts(tensor: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _beside(path: Path, location: str) -> Path:
    """Where a data file lies; outside of the model's folder nothing is read, by whatever way."""
    name = PurePosixPath(location)
    here = path.resolve().parent
    target = (here / name).resolve()
    if not location or name.is_absolute() or "\\" in location or ".." in name.parts or not target.is_relative_to(here):
        raise InputError(
            f"{path} names weights outside of its folder ({location!r}), which are not read; put them beside it and "
            "export it again"
        )
    if not target.is_file():
        raise InputError(f"{path} needs its data file {location}, which is not beside it; copy both")
    return target


def graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from graphs(inner)


def _nodes(model: Any) -> Iterator[Any]:
    for body in (model.graph, *model.functions):
        for graph in graphs(body):
            yield from graph.node


def _tensors(model: Any) -> Iterator[Any]:
    """Every tensor of numbers: initialisers, and constants in nodes."""
    for body in (model.graph, *model.functions):
        for graph in graphs(body):
            yield from getattr(graph, "initializer", ())
            for sparse in getattr(graph, "sparse_initializer", ()):
                yield from (sparse.values, sparse.indices)
            for node in graph.node:
                for attribute in node.attribute:
                    yield from (attribute.t,) if attribute.HasField("t") else ()
                    yield from attribute.tensors
