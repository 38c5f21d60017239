"""What is done while files fail: small, real, and deterministic. Each says what it acknowledges, in order.

`load(origin)` makes what is there before; `work(folder, say)` does it; `check(folder, said)` is the next start: nothing
that was said may be lost, nothing may be half, and the same work must now come to its end.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from simulated_runs import simulated_config

from smoothcert.core.files import DRAFT
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed, Scope, converse
from smoothcert.runs import Record, Run
from smoothcert.stats import Tally

Say = Callable[[Any], None]


class Workload(Protocol):
    def load(self, origin: Path) -> None: ...

    def work(self, folder: Path, say: Say) -> None: ...

    def check(self, folder: Path, said: Sequence[Any]) -> None: ...


def without_drafts(folder: Path) -> None:
    left = [path.name for path in folder.rglob("*") if path.name.startswith(DRAFT)]
    assert not left, f"drafts of the killed are still there: {left}"


def silent(_: Any) -> None:
    pass


def tiny() -> Any:
    """An architecture of two hundred weights: what is tested is how it is written."""
    import torch
    from torch import nn

    from smoothcert.models import Architecture, names, register

    torch.set_num_threads(1)  # this process is forked

    def linear(*, num_classes: int, input_shape: tuple[int, int, int]) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], num_classes))

    if "tiny" not in names():
        register("tiny")(linear)
    return Architecture("tiny", 3, (1, 8, 8))


class Certify:
    """A run: started, and a record per input."""

    indices = (0, 20, 40, 60)
    procedure = Fixed(n0=10, n=100)
    noise: ClassVar[dict[str, Any]] = Gaussian(0.5).describe()

    def load(self, origin: Path) -> None:
        origin.mkdir(parents=True)

    def config(self) -> Any:
        about = {"noise": self.noise, "procedure": self.procedure.describe(), "labels": (0,) * len(self.indices)}
        return simulated_config(self.indices, **about)

    def record(self, index: int) -> Record:
        votes = Tally((99 - index // 10, 1 + index // 10))
        made = converse(self.procedure.certify(Gaussian(0.5)), lambda ask: votes if ask.n > 10 else Tally((10, 0)))
        own = replace(made, noise=self.noise, classifier=self.config().classifier, input_id=str(index))
        return Record.of(index, label=0, certificate=own, seconds=0.125)

    def work(self, folder: Path, say: Say) -> None:
        run = Run.start(folder / "run", self.config())
        say("started")
        done = {record.index for record in run.records()}
        with run.writing() as writer:
            for index in self.indices:
                if index not in done:
                    writer.append(self.record(index))
                    say(index)

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        if said:
            run = Run.open(folder / "run")
            found = {record.index: record for record in run.records()}
            assert {index for index in said if index != "started"} <= set(found)
            assert all(record == self.record(index) for index, record in found.items())
        self.work(folder, silent)
        run = Run.open(folder / "run")
        assert run.records() == [self.record(index) for index in self.indices]
        assert not run.torn
        without_drafts(folder)


class Attack:
    """An attack on a run, in its own folder."""

    indices = (3, 1, 2)

    def load(self, origin: Path) -> None:
        origin.mkdir(parents=True)

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.attack.records import AttackConfig, AttackRun

        about = {"attacks": ("pgd",), "radii": (0.5,), "steps": 1, "draws": 8, "votes": 100, "run": "r" * 32}
        run = AttackRun.start(folder / "attack", AttackConfig(indices=self.indices, **about))  # type: ignore[arg-type]
        say("started")
        done = {one.index for one in run.attacked()}
        with run.writing() as writer:
            for index in self.indices:
                if index not in done:
                    writer.append(self.found(index))
                    say(index)

    def found(self, index: int) -> Any:
        from smoothcert.attack.records import Attacked

        return Attacked(index, 1, 1, 1, 0.25, {"pgd": 0.5 + index})

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from smoothcert.attack.records import AttackRun

        if said:
            there = {one.index for one in AttackRun.open(folder / "attack").attacked()}
            assert {index for index in said if index != "started"} <= there
        self.work(folder, silent)
        assert AttackRun.open(folder / "attack").attacked() == [self.found(index) for index in self.indices]
        without_drafts(folder)


class Inserts:
    """A memory in SQLite: made, opened again, and regions that are in each other's way."""

    balls = (((0.0, 0.0), 1, 1.0), ((1.5, 0.0), 2, 1.0), ((0.25, 0.0), 2, 1.0), ((9.0, 0.0), 0, 0.5))

    def load(self, origin: Path) -> None:
        origin.mkdir(parents=True)

    def certificate(self, label: int, radius: float) -> Certificate:
        return Certificate(
            label=label,
            radius=radius,
            norm="l2",
            p_lower=0.5,
            reason="as simulated",
            alpha=0.001,
            procedure={"name": "simulated"},
            answers=(("bound", Tally((1, 2))),),
            noise={"name": "gaussian", "norm": "l2"},
            classifier={"fingerprint": "f"},
            scope=Scope.OWN,
        )

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.memory import Memory

        for part in (self.balls[:2], self.balls[2:]):  # closed in between: the log goes into the file
            with Memory(folder / "m.sqlite") as memory:
                for x, label, radius in part:
                    got = memory.insert(np.array(x, dtype=np.float32), self.certificate(label, radius))
                    say([x, got.label, got.radius])

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from smoothcert.memory import Memory

        again: list[Any] = []
        with Memory(folder / "m.sqlite") as memory:
            for x, label, radius in said:
                found = memory.answer(np.array(x, dtype=np.float32))
                assert found is not None
                assert (found.label, found.radius >= radius) == (label, True)
            if memory.owner is not None:
                assert memory.check() == []
        self.work(folder, again.append)
        assert [[list(x), label, radius] for x, label, radius in again][: len(said)] == list(said), "it says the same"
        with Memory(folder / "m.sqlite") as memory:
            assert memory.check() == []
            assert len(memory) == 3
        without_drafts(folder)


class Checkpoint:
    """A checkpoint in the place of an older one."""

    def load(self, origin: Path) -> None:
        from smoothcert.models import build, save

        origin.mkdir(parents=True)
        self.spec = tiny()
        self.nets = [build(self.spec, seed=seed) for seed in range(2)]
        save(origin / "net.safetensors", self.nets[0], self.spec, {"which": 0})

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.models import save

        save(folder / "net.safetensors", self.nets[1], self.spec, {"which": 1})
        say("saved")

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from smoothcert.models import fingerprint, load

        found = load(folder / "net.safetensors")
        which = found.details["which"]
        assert which == 1 or not said
        assert found.fingerprint == fingerprint(self.nets[which])
        self.work(folder, silent)
        assert load(folder / "net.safetensors").details["which"] == 1
        assert [path.name for path in folder.iterdir()] == ["net.safetensors"]


class Ensemble(Checkpoint):
    """An ensemble file in the place of an older one."""

    def load(self, origin: Path) -> None:
        from smoothcert.models import save
        from smoothcert.models.ensembles import save as save_ensemble

        super().load(origin)
        save(origin / "other.safetensors", self.nets[1], self.spec, {"which": 1})
        members = [origin / "net.safetensors", origin / "other.safetensors"]
        save_ensemble(origin / "both.json", "soft-voting", members, {"weights": [1, 1]})

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.models.ensembles import save

        members = [folder / "net.safetensors", folder / "other.safetensors"]
        save(folder / "both.json", "soft-voting", members, {"weights": [1, 3]})
        say("saved")

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from smoothcert.models.ensembles import load_model

        weights = load_model(folder / "both.json").details["ensemble"]["options"]["weights"]
        assert weights in ([0.5, 0.5], [0.25, 0.75], [1, 1], [1, 3])
        assert weights in ([0.25, 0.75], [1, 3]) or not said
        self.work(folder, silent)
        assert load_model(folder / "both.json").details["ensemble"]["options"]["weights"] in ([0.25, 0.75], [1, 3])
        without_drafts(folder)


class Train:
    """A training in its folder: configuration, states, log and the model."""

    config: ClassVar[dict[str, Any]] = {"format": 1, "seed": 0}

    def load(self, origin: Path) -> None:
        import torch

        origin.mkdir(parents=True)
        self.spec = tiny()
        generator = torch.Generator().manual_seed(0)
        self.data = (torch.rand(12, 1, 8, 8, generator=generator), torch.arange(12) % 3)

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.models import build, save
        from smoothcert.noise import Gaussian as Noise
        from smoothcert.training import Epoch, Folder, train
        from smoothcert.training.objectives import Gaussian as Objective

        with Folder.start(folder / "out", self.config) as out:
            say("started")
            if out.model.exists():
                say("model")
                return
            net, history = build(self.spec, seed=0), list[Epoch]()

            def told(epoch: Epoch) -> None:
                history.append(epoch)
                out.log(history)
                say(epoch.number)

            train(
                net, self.data, Objective(Noise(0.3)), epochs=2, batch_size=6, seed=1,
                state=out.state, save_every=0.0, on_epoch=told,
            )  # fmt: skip
            save(out.model, net, self.spec, {"noise": Noise(0.3).describe()})
            say("model")

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from smoothcert.models import load

        out = folder / "out"
        if "model" in said:
            load(out / "model.safetensors")
        epochs = [one for one in said if isinstance(one, int)]
        if epochs:
            log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
            assert [line["number"] for line in log][: max(epochs)] == list(range(1, max(epochs) + 1))
        self.work(folder, silent)
        assert load(out / "model.safetensors").fingerprint == self.whole(folder), "as if never interrupted"
        assert len((out / "log.jsonl").read_text().splitlines()) == 2
        without_drafts(folder)

    def whole(self, folder: Path) -> str:
        """The weights of a training that nobody disturbed; computed once, in a folder of its own."""
        from smoothcert.models import load

        place = folder.with_name("undisturbed")
        if not (place / "out" / "model.safetensors").exists():
            self.work(place, silent)
        return load(place / "out" / "model.safetensors").fingerprint


class Exports(Inserts):
    """The regions of a memory as .npz, a figure and a report page, beside older ones."""

    def load(self, origin: Path) -> None:
        super().load(origin)
        super().work(origin, silent)
        Certify().work(origin, silent)
        (origin / "page.html").write_text("old")
        (origin / "curve.png").write_text("old")

    def work(self, folder: Path, say: Say) -> None:
        from smoothcert.analysis import read
        from smoothcert.present.figures import radius_accuracy
        from smoothcert.present.report import write_report
        from smoothcert.workflows.memory import export

        results = [read(folder / "run")]
        export(folder / "m.sqlite", folder / "regions.npz")
        say("regions")
        radius_accuracy(results, folder / "curve.png")
        say("curve")
        write_report(results, folder / "page.html")
        say("page")

    def check(self, folder: Path, said: Sequence[Any]) -> None:
        from PIL import Image

        regions = folder / "regions.npz"
        assert regions.exists() or "regions" not in said
        if regions.exists():
            with np.load(regions) as found:
                assert len(found["labels"]) == len(found["inputs"]) == len(found["about"]) == 3
                assert json.loads(str(found["owner"]))["norm"] == "l2"
        old = (folder / "curve.png").read_bytes() == b"old"
        assert not (old and "curve" in said)
        if not old:
            with Image.open(folder / "curve.png") as image:
                image.load()
        page = (folder / "page.html").read_text()
        assert page == "old" or page.rstrip().endswith("</html>")
        assert page != "old" or "page" not in said
        regions.unlink(missing_ok=True)
        self.work(folder, silent)
        without_drafts(folder)


WORKLOADS: dict[str, Workload] = {
    "certify": Certify(),
    "attack": Attack(),
    "memory": Inserts(),
    "checkpoint": Checkpoint(),
    "ensemble": Ensemble(),
    "train": Train(),
    "exports": Exports(),
}
