"""After the reveal anybody can verify what a server answered; before it, nobody can foresee what it will answer."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from serving import PROCEDURE, Served, images, png, serving
from torch import Tensor
from typer.testing import CliRunner

from smoothcert.cli import app
from smoothcert.core.errors import InputError
from smoothcert.core.secret import SecretKey
from smoothcert.engine import Smoothed
from smoothcert.engine.live import LiveEngine, Question
from smoothcert.noise import Gaussian
from smoothcert.procedures import Certificate, Fixed
from smoothcert.runs.folder import LineWriter
from smoothcert.service.reveal import reveal
from smoothcert.workflows.run import Run
from smoothcert.workflows.verify import verify


@pytest.fixture(scope="module")
def revealed(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Six answers of two procedures, by a server that has stopped."""
    with serving(tmp_path_factory.mktemp("revealed")) as served, served.client() as client:
        for row, levels in enumerate(images(6)):
            assert client.post(f"/certify{'?radius=0.05' if row % 2 else ''}", content=png(levels)).status_code == 200
        with pytest.raises(InputError, match="its server still answers with the key"):
            reveal(served.out)
    return served


def test_verify_accepts_the_runs_to_the_last_draw(revealed: Served) -> None:
    done = CliRunner().invoke(app, ["serve", "reveal", str(revealed.out)])
    assert done.exit_code == 0, done.output
    runs = [Run.open(one.run) for one in reveal(revealed.out)]  # again: nothing changes
    assert done.stdout.count("smoothcert verify") == len(runs) == 2
    for run in runs:
        found = verify(run, model=revealed.model)
        assert found.holds, str(found)
        assert (found.holding, "level 2" in found.sentence) == (3, True)
        assert run.config.key is not None
        assert run.config.key.hash in revealed.said[0]  # as it was published at the start
        assert all(one.key == run.config.key.hash for one in run.certificates())


def test_a_run_made_with_another_key_than_was_published_does_not_hold(revealed: Served, tmp_path: Path) -> None:
    run = reveal(revealed.out)[0].run
    content = json.loads((run / "run.json").read_text())
    content["config"]["key"]["revealed"] = SecretKey.new().hex
    from smoothcert.runs.config import config_digest

    content["digest"] = config_digest(content["config"])
    (tmp_path / "run.json").write_text(json.dumps(content))
    (tmp_path / "records.jsonl").write_bytes((run / "records.jsonl").read_bytes())
    assert "key" in {finding.check for finding in verify(tmp_path).findings}


def test_a_secret_that_is_not_the_published_one_is_refused(revealed: Served, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(revealed.out), str(tmp_path / "copy")], check=True)
    (file,) = (tmp_path / "copy" / "secrets").iterdir()
    file.write_text(SecretKey.new().hex)
    with pytest.raises(InputError, match="not the key whose hash was published"):
        reveal(tmp_path / "copy")
    file.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        reveal(tmp_path / "copy")
    with pytest.raises(InputError, match="holds no answers"):
        reveal(tmp_path)


def test_nothing_that_others_may_read_holds_the_secret(revealed: Served) -> None:
    (secret,) = (revealed.out / "secrets").iterdir()
    key = SecretKey.from_hex(secret.read_text().strip())
    assert key.hex not in repr(key)
    (folder,) = (path.parent for path in revealed.out.glob("*/run.json"))
    public = (folder / "run.json").read_text() + (folder / "records.jsonl").read_text() + json.dumps(revealed.log)
    seed = key.seed(PROCEDURE.describe())
    assert not any(one in public for one in (key.hex, str(seed), f"{seed:x}"))


class Halves(torch.nn.Module):
    """Class 1 above 0 in the first coordinate: at 0 no radius at all can be certified, whatever the others are."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([-x[:, 0], x[:, 0]], dim=1)


def _false(g: Smoothed, x: Tensor, procedure: Fixed, seed: int) -> list[int]:
    """Which of these inputs, all on the boundary, are certified under a seed: each certificate is false."""
    found: list[int] = []
    engine = LiveEngine(g, x[:1])

    def note(row: int, answer: object) -> None:
        if isinstance(answer, Certificate) and not answer.abstained:
            found.append(row)

    for row, one in enumerate(x):
        engine.add(Question(one, g.noise, procedure, seed=seed, on_end=lambda out, row=row: note(row, out)))
    engine.close()
    return sorted(found)


def test_with_a_known_seed_lucky_inputs_are_found_and_with_a_secret_key_they_are_not() -> None:
    """The attacker tries inputs at home, where the seed is known, and asks the server about the lucky ones only."""
    g, procedure, public = Smoothed(Halves(), 2, Gaussian(1.0), workers=1), Fixed(n0=10, n=40, alpha=0.05), 7
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    x[:, 0] = 0
    lucky = _false(g, x, procedure, public)[:8]
    assert len(lucky) == 8
    # A server that draws with the seed that everybody knows gives false certificates only.
    assert _false(g, x[lucky], procedure, public) == list(range(8))
    # Under a key each is false with probability at most 0.05: five of eight, with less than 2e-5.
    secret = SecretKey.new().seed(procedure.describe())
    assert len(_false(g, x[lucky], procedure, secret)) < 5


def test_seeds_of_keys_and_procedures_are_all_different() -> None:
    keys = [SecretKey(bytes([i]) * 32) for i in range(4)]
    seeds = {key.seed(Fixed(n=n).describe()) for key in keys for n in (100, 101)}
    assert len(seeds) == 8
    assert min(seeds) > 2**200
    assert SecretKey.from_hex(keys[0].hex) == keys[0]
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        SecretKey.from_hex("zz")


def test_inputs_stay_beside_their_answers_after_a_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk between an input and its line: that answer is not given, and the next one has its own input."""
    append, calls = LineWriter.append, list[int]()

    def failing_once(self: LineWriter, line: Callable[[str], bytes]) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        append(self, line)

    monkeypatch.setattr(LineWriter, "append", failing_once)
    with serving(tmp_path) as served, served.client() as client:
        said = [client.post("/certify", content=png(levels)).status_code for levels in images(4)]
    monkeypatch.undo()
    assert (said[0], said[2], said[3]) == (200, 200, 200)
    assert said[1] >= 500
    (found,) = reveal(served.out)
    assert found.answers == 3
    assert verify(found.run, model=served.model).holds
