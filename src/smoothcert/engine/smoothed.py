"""`Smoothed`: any classifier, made provably robust by noise. The class that users hold."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.core.model import Model, device_of
from smoothcert.engine.arguments import check_arguments, check_own, refuse_labels
from smoothcert.engine.backends import check_backend
from smoothcert.engine.compiled import Compiled, ModelCompiler
from smoothcert.engine.drawing import Checked, Drawing
from smoothcert.engine.inputs import Inputs, as_batch
from smoothcert.engine.member_calls import MemberCalls
from smoothcert.engine.pools import Pool, Threads
from smoothcert.engine.sigma import SigmaSearch
from smoothcert.engine.weights import WeightSearch
from smoothcert.memory.protocol import RegionMemory, insert_in_order, predict_through
from smoothcert.models import has_gradients, in_own_precision
from smoothcert.noise import Noise
from smoothcert.procedures import Certificate, Certificates, Fixed, Predict, Prediction, Procedure, Scope


class Smoothed:
    """The smoothed classifier g(x) = the class that f answers most often on noisy copies of x (Cohen et al. 2019).

    Args:
        model: f, any callable from a float tensor (B, ...) to scores (B, num_classes). Noise is added to raw inputs,
            so normalisation belongs inside f. A module of half or double precision is given inputs of its own kind.
            What is sampled is a private copy of a module, in evaluation mode: the original is not touched, and may
            change meanwhile. A function must be fixed by itself.
        num_classes: number of classes C.
        noise: what is added, and so in which norm the certificates speak.
        seed: certificates are a function of (seed, input, procedure, model): the same again, always. alpha holds for a
            procedure, n and radius that were settled before any draw of this seed was seen; to try again with other
            settings take another seed, and pay for the best of k tries.
        batch_size: rows per model call. Default: 128 on a CPU, 384 if the model has large linear layers, up to 4096 for
            small inputs of a function and small networks of linear layers; 1024 elsewhere. A module on a CPU always
            sees this shape or, where a row gets the same scores to the last bit, a part of it, so that few draws are
            spread over all workers. Draws of several inputs share a call only where that changes no bit of a score.
        device: where to run. Default: where the module is.
        workers: short for `pool=Threads(workers)`: threads with one core, and one copy of the module, each. Default:
            all cores for a module on the CPU, else 1: a function uses one core. With more workers it must allow to be
            called from several threads.
        backend: how a module is run: "eager" (torch, batch-norm folded), "compile", "onnxruntime", "openvino", or, on a
            CPU that has the instructions several times faster, "onnxruntime-int8" and "openvino-int8". Every backend is
            a classifier of its own, and certificates name it: predict with the one that was certified. "auto" measures
            those in float32; int8 is noticeably another classifier and never chosen for you.
        calibration: training inputs (N, ...), for int8: their noisy copies tell the ranges of the numbers.
        search: how the strength of the noise is found for each input, such as `Bracket()`, from that of `noise`.
            Certificates then have the scope "this input's own classifier". Default: one strength for all.
        weights: how the weights of a `SoftmaxVoting` are found for each input, such as `LeastVariance()`. Certificates
            then have the scope "this input's own classifier", too. Default: those of the ensemble.
        memory: where certified regions are kept, a `Memory`. Certificates are inserted, in the order of the inputs, and
            have the scope "memory"; predictions inside a region are that region's. Default: none.
        input_range: inputs outside it are refused. Images: (0, 1).
        input_shape: shape of one input. Without it the first axis of inputs counts them; one axis is one vector, and
            three axes are refused, because they may be one image or a batch of grey ones.
        pool: where draws are evaluated. Default: `Threads()`, those of this process. Votes are the same everywhere.
    """

    def __init__(
        self,
        model: Model,
        num_classes: int,
        noise: Noise,
        seed: int = 0,
        *,
        batch_size: int | None = None,
        device: torch.device | str | None = None,
        workers: int | None = None,
        backend: str = "eager",
        calibration: Inputs | None = None,
        search: SigmaSearch | None = None,
        weights: WeightSearch | None = None,
        memory: RegionMemory | None = None,
        input_range: tuple[float, float] | None = None,
        input_shape: tuple[int, ...] | None = None,
        pool: Pool | None = None,
    ) -> None:
        check_arguments(
            model, num_classes, noise, batch_size=batch_size, workers=workers, search=search, weights=weights, pool=pool
        )
        model = in_own_precision(model)
        self._model, self._noise, self._num_classes, self._seed = model, noise, num_classes, seed
        self._device = device_of(model) if device is None else torch.device(device)
        self._search, self._weights, self._memory = search, weights, memory
        self._pool, self._input_range = pool or Threads(workers), input_range
        self._input_shape = None if input_shape is None else tuple(input_shape)
        self._backend = backend
        self._calibration = None if calibration is None else self.as_batch(calibration)
        check_backend(backend, model, self._device, self._calibration)
        self._rows = batch_size
        self._compiler, self._checked = self._new_compiler()

    def _new_compiler(self) -> tuple[ModelCompiler, Checked]:
        """Nothing is compiled yet, and nothing checked."""
        own_weights = None if self._weights is None else self._weights.describe()
        compiler = ModelCompiler(
            self._model, num_classes=self._num_classes, device=self._device, noise=self._noise, backend=self._backend,
            rows=self._rows, workers=self._pool.workers, calibration=self._calibration, own_weights=own_weights,
        )  # fmt: skip
        return compiler, weakref.WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_compiler", "_checked")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compiler, self._checked = self._new_compiler()

    def __repr__(self) -> str:
        kind = getattr(self._model, "__qualname__", type(self._model).__name__)
        strength = f"{self._noise.strength_name}={self._noise.strength:g}"
        return f"Smoothed({kind}, {self._num_classes} classes, {self._noise.name} {strength}, seed={self._seed})"

    # Read-only: a certificate names the model, noise and seed that were sampled.

    @property
    def model(self) -> Model:
        """The base classifier f."""
        return self._model

    @property
    def has_gradients(self) -> bool:
        """Whether gradients go through f: it is a torch module, and no part of it is run by another runtime."""
        return has_gradients(self._model)

    @property
    def noise(self) -> Noise:
        """What is added to inputs."""
        return self._noise

    @property
    def search(self) -> SigmaSearch | None:
        """How each input gets its own strength; None: all have that of the noise."""
        return self._search

    @property
    def weights(self) -> WeightSearch | None:
        """How each input gets its own weights of the ensemble; None: all have those of the ensemble."""
        return self._weights

    @property
    def memory(self) -> RegionMemory | None:
        """Through what it answers; None: by itself."""
        return self._memory

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self._num_classes

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self._seed

    def compile(self, shape: Sequence[int], *, say: Callable[[str], None] = lambda _: None) -> Compiled:
        """The model as it is run for inputs of this shape: private copy, backend, rows, workers, identity.

        Called for the user at first use, and kept as long as the model stays what it is. `say` hears what the backend
        "auto" measures, in a few words at a time; what it chose for a model and shape is remembered in this process.
        """
        return self._compiler.compile(tuple(shape), say)

    def describe(self, x: Inputs | None = None) -> dict[str, Any]:
        """What identifies the classifier that is sampled: weights, kind, dtype, and how it is run.

        How it is run may depend on the shape of inputs: then give `input_shape` to `Smoothed`, or inputs like x.
        """
        shape = self._input_shape if x is None else tuple(self.as_batch(x).shape[1:])
        return self._compiler.compile(shape).description

    def check(self, x: Inputs) -> None:
        """Refuse inputs or a model that cannot be certified, at the price of some hundred draws of the first one."""
        batch = self.as_batch(x)
        self._drawing(self.compile(batch.shape[1:])).check(batch)

    def certify(
        self,
        x: Inputs,
        procedure: Procedure | None = None,
        *,
        noises: Sequence[Noise] | None = None,
        member_calls: MemberCalls | None = None,
    ) -> Certificates:
        """A certificate per input: x is (B, ...) or one input. Default procedure: `Fixed()`, Cohen's.

        What comes back is a list, which prints as a table.

        `noises` and `member_calls`: as of `certifying`.
        """
        answers = self.certifying(x, procedure, noises=noises, member_calls=member_calls)
        ordered = (answer for _, answer in sorted(answers, key=lambda pair: pair[0]))
        return Certificates(ordered, images=self.as_batch(x).cpu().numpy())

    def predict(
        self, x: Inputs, procedure: Predict | None = None, *, member_calls: MemberCalls | None = None
    ) -> list[Prediction]:
        """The smoothed classifier's answer per input, or an abstention; inside a region of the memory, the region's.

        `member_calls`: as of `certifying`.
        """
        procedure, batch = procedure or Predict(), self.as_batch(x)
        compiled = self.compile(batch.shape[1:])
        calls = MemberCalls() if member_calls is None else member_calls

        def draw(rows: list[int]) -> Iterator[tuple[int, Prediction]]:
            if rows:
                # Not batch[rows]: several threads of torch would wait for each other longer than it takes.
                chosen = batch if len(rows) == len(batch) else torch.stack([batch[row] for row in rows])
                answers = self._drawing(compiled).answers(chosen, lambda _row, _noise: procedure.predict(), calls)
                for row, answer in answers:
                    yield rows[row], dataclasses.replace(answer, scope=self._scope(None))

        if self._memory is None:
            return [answer for _, answer in sorted(draw(list(range(len(batch)))), key=lambda pair: pair[0])]
        return predict_through(self._memory, batch, procedure, draw, **self._about(compiled, batch))

    def certifying(
        self,
        x: Inputs,
        procedure: Procedure | None = None,
        *,
        noises: Sequence[Noise] | None = None,
        weights: Sequence[Sequence[float]] | None = None,
        labels: Sequence[int] = (),
        on_draws: Callable[[int], None] = lambda _: None,
        member_calls: MemberCalls | None = None,
        compiled: Compiled | None = None,
    ) -> Iterator[tuple[int, Certificate]]:
        """Like `certify`, but yields (row, certificate) as soon as each is there; `on_draws` hears of progress.

        `noises` gives each input its own noise, instead of the search. The certificates then have the scope "this
        input's own classifier": the smoothed classifier is another one at every input, and without a memory nothing is
        claimed about neighbours. So `weights`, of a classifier that has its own at each. With a memory certificates
        come in the order of the inputs. `labels` are for procedures of test data, `Evaluate`.

        `member_calls` counts what an ensemble's members are asked. `compiled` is what a run was begun with: a model
        that has changed since then is refused, instead of being compiled anew.
        """
        asked, batch = procedure or Fixed(), self.as_batch(x)
        check_own(len(batch), noises, weights, self._weights, labels)
        refuse_labels(asked, self._memory)
        compiled = self._current(batch, compiled)
        calls = MemberCalls() if member_calls is None else member_calls
        answers = self._drawing(compiled).answers(
            batch, lambda row, noise: (asked.knowing(int(labels[row])) if len(labels) else asked).certify(noise), calls,
            noises=noises, weights=weights, on_draws=on_draws,
        )  # fmt: skip
        scoped = ((row, dataclasses.replace(answer, scope=self._scope(noises))) for row, answer in answers)
        if self._memory is None:
            yield from scoped
            return
        about = self._about(compiled, batch)  # what the memory is not for is refused before anything is drawn
        self._memory.check_owner(about["classifier"], about["noise"], batch.shape[1:])
        yield from insert_in_order(self._memory, batch, scoped)

    def drawing(self, example: Inputs) -> Drawing:
        """What draws around inputs like `example`, for conversations that somebody else brings (`engine.live`)."""
        return self._drawing(self.compile(self.as_batch(example).shape[1:]))

    def noises(self, x: Inputs) -> list[Noise]:
        """The noise of each input: what the search finds, or that of all. A function of the seed, the input and f."""
        batch = self.as_batch(x)
        return self._drawing(self.compile(batch.shape[1:])).noises(batch)

    def own_weights(self, x: Inputs) -> list[tuple[float, ...]]:
        """The weights of each input, of a classifier that finds them. A function of the seed, the input and f."""
        batch = self.as_batch(x)
        return self._drawing(self.compile(batch.shape[1:])).weights(batch)

    def _scope(self, noises: Sequence[Noise] | None) -> Scope:
        return Scope.OWN if any(one is not None for one in (noises, self._search, self._weights)) else Scope.FIXED

    def _about(self, compiled: Compiled, batch: Tensor) -> dict[str, Any]:
        noise = self._noise.for_inputs(batch).describe()
        return {"classifier": compiled.description, "noise": noise, "seed": self._seed}

    def _current(self, batch: Tensor, begun_with: Compiled | None) -> Compiled:
        if begun_with is None:
            return self.compile(batch.shape[1:])
        named = begun_with.description["fingerprint"] is not None  # of others nobody can tell
        if tuple(batch.shape[1:]) != begun_with.shape or (named and not self._compiler.is_current(begun_with)):
            raise InputError("the model was changed while the run was under way; certify into a new run")
        return begun_with

    def _drawing(self, compiled: Compiled) -> Drawing:
        return Drawing(compiled, self._pool, self._noise, self._seed, self._search, self._weights, self._checked)

    def as_batch(self, x: Inputs) -> Tensor:
        """Inputs as float32 (B, ...), a copy; refused where they cannot be what was meant."""
        return as_batch(x, self._input_shape, self._input_range)
