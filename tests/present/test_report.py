"""The report as a file: its numbers worked out by hand, its safety, its size. What it does is in tests/browser."""

import base64
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from smoothcert.analysis import Results, Settings, oracle, read, read_all
from smoothcert.core.errors import InputError
from smoothcert.noise import Gaussian
from smoothcert.present.report import write_report
from smoothcert.procedures import ABSTAIN, Ask, Fixed, Procedure, Scope, Sequential, converse
from smoothcert.runs import Record
from smoothcert.stats import Tally

HOSTILE = "</script><img src=x onerror=alert(1)>"
LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n" + "".join(
    f"{i}\t{i % 3}\t{i % 3}\t{0.1 * (i % 7):.4f}\t1\t0:00:01.5\n" for i in range(100)
)


def model(path: Path) -> dict[str, Any]:
    """The data inside a page, as a browser reads them."""

    class Finder(HTMLParser):
        inside, text, scripts = False, "", 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = ("id", "model") in attrs
            self.scripts += tag == "script"
            assert tag != "img"
            assert not any(name.startswith("on") for name, _ in attrs)

        def handle_data(self, data: str) -> None:
            self.text += data if self.inside else ""

    finder = Finder()
    finder.feed(path.read_text(encoding="utf-8"))
    assert finder.scripts == 2, "the data and the program"
    found: dict[str, Any] = json.loads(finder.text)
    return found


def results(name: str = "run", *, inputs: int = 7) -> Results:
    """Of 7: right below 0.3, 0.5, 0.5 and 0.75; one wrong below 0.9; two abstain."""
    radii = [0.3, 0.5, 0.5, 0.75, 0.9, 0.0, 0.0]
    said = [1, 1, 1, 1, 0, ABSTAIN, ABSTAIN]
    return Results(name, tuple(Record(i, 1, said[i % 7], radii[i % 7], draws=10 + i) for i in range(inputs)))


def test_numbers_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    page = model(write_report([results()], tmp_path / "r.html", radii=[0.75, 0, 0.5]))
    run = page["runs"][0]
    assert page["radii"] == [0, 0.5, 0.75]
    assert page["picked"] == 0.5
    # 4 of 7 = 57.14..., 3 of 7 = 42.857..., 1 of 7 = 14.28...: all rounded down.
    assert [share["text"] for share in run["accuracy"]] == ["57.1", "42.8", "14.2"]
    assert run["sentence"] == "run: certified at radius 0.5: 42.8% of 7 inputs"
    # (0.3 + 0.5 + 0.5 + 0.75) / 7 = 0.29285...
    assert run["acr"]["text"] == "0.2928"
    assert run["abstained"]["text"] == "28.6", "2 of 7 = 28.571...: not a claim, rounded up"
    assert run["draws"]["text"] == "13"
    # Clopper-Pearson of 0 of 7: 1 - 0.025^(1/7) = 0.40962..., rounded up.
    assert run["bands"]["0"] == [0.0, 41.0]
    assert set(run["bands"]) == {"0", "1", "3", "4"}
    assert page["scale"] == {"max": 0.75, "step": 0.001}
    assert run["records"]["radius"] == [0.3, 0.5, 0.5, 0.75, 0.9, 0.0, 0.0], "in full: a reader picks any radius"
    assert run["confidence"] is None


def test_a_run_says_its_confidence_votes_and_reasons(make_run: Callable[..., Path], tmp_path: Path) -> None:
    made = make_run("a", range(3), [100, 90, 40])
    run = model(write_report([read(made)], tmp_path / "r.html"))["runs"][0]
    assert (run["confidence"], run["alpha"], run["norm"]) == ("99.9", "0.001", "ℓ₂")
    assert run["records"]["votes"] == [[1, 100, 0, 0, 100], [1, 90, 0, 10, 100], [0, 60, 1, 40, 100]]
    assert run["records"]["prediction"] == [1, 1, ABSTAIN]
    assert "40 of 100" in run["records"]["reason"][2], "an abstention says why"
    assert ["noise.sigma", "0.25"] in run["settings"]
    assert run["claims"] == "The certificates are about one fixed smoothed classifier."


def test_how_sure_a_run_is_of_each_input(make_run: Callable[..., Path], tmp_path: Path) -> None:
    """Bounds of 100 votes at alpha 0.001, worked out by SciPy; shares are rounded up, bounds down."""
    run = read(make_run("run", range(4), [100, 90, 70, 30]))
    found = model(write_report([run, results("log")], tmp_path / "r.html"))["runs"]
    bounds = [0.0] + [float(stats.beta.ppf(0.001, k, 101 - k)) for k in (70, 90, 100)]
    certainty = found[0]["certainty"]
    assert certainty["bounds"] == [math.floor(p * 10_000) / 10_000 for p in bounds]
    assert [(one["p"], one["text"]) for one in certainty["below"]] == [
        (p, f"{100 * sum(bound < p for bound in bounds) / 4:.1f}") for p in (0.5, 0.75, 0.9, 0.99)
    ]
    assert float(certainty["median"]) == math.floor(bounds[1] * 10_000) / 10_000
    assert found[1]["certainty"] is None, "of the log nobody knows sigma"


def test_warnings_come_along(make_run: Callable[..., Path], tmp_path: Path) -> None:
    unfinished = make_run("half", range(10), [100] * 4)
    own = make_run("own", range(4), [100] * 4, scope=Scope.OWN)
    page = model(write_report(read_all([unfinished, own]), tmp_path / "r.html"))
    assert any("4 of 10 inputs are recorded" in warning for warning in page["warnings"])
    assert any("do not claim that any one classifier is robust" in warning for warning in page["warnings"])
    assert page["runs"][0]["planned"] == 10
    assert "own classifier" in page["runs"][1]["claims"]
    assert "4 of 10 inputs are recorded" in re.findall("<noscript>.*</noscript>", page_text(tmp_path), re.S)[0]


def page_text(tmp_path: Path) -> str:
    return (tmp_path / "r.html").read_text(encoding="utf-8")


def test_logs_and_runs_mix(make_run: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "public.tsv").write_text(LOG)
    both = read_all([make_run("a", range(3), [100, 90, 40]), tmp_path / "public.tsv"])
    run, log = model(write_report(both, tmp_path / "r.html"))["runs"]
    assert run["alpha"] == "0.001"
    assert log["alpha"] is None
    assert "its author's" in log["claims"]
    assert log["records"]["votes"] == [None] * 100
    assert log["seconds"]["text"] == "1.5"


def certified(name: str, procedure: Procedure, shares: list[float], **more: Any) -> Results:
    """Input i gets this share of votes for class 0, which is right, of one classifier."""
    records = []
    for i, share in enumerate(shares):

        def draw(ask: Ask, share: float = share) -> Tally:
            return Tally((round(ask.n * share), ask.n - round(ask.n * share)))

        records.append(Record.of(i, 0, converse(procedure.certify(Gaussian(0.5)), draw), 0.1))
    about: dict[str, Any] = {"classifier": {"fingerprint": "a"}, "noise": {"name": "gaussian", "sigma": 0.5}}
    settings = about | {"procedure": procedure.describe(), "fixed_draws": procedure.fixed_draws()} | more
    return Results(name, tuple(records), settings=Settings(**settings))


FIXED = certified("fixed", Fixed(n=10_000), [1.0, 1.0, 0.9, 0.4])
QUICK = certified("quick", Sequential(radius=[0.25, 0.5], n=10_000), [1.0, 1.0, 0.9, 0.4])


def test_what_was_not_asked_is_not_0(tmp_path: Path) -> None:
    page = model(write_report([FIXED, QUICK], tmp_path / "r.html", radii=[0.5, 1.0]))
    fixed, quick = page["runs"]
    assert (fixed["asked"], quick["asked"]) == (None, 0.5)
    assert [share["text"] for share in fixed["accuracy"]] == ["75.0", "50.0"]
    assert [share["text"] for share in quick["accuracy"]] == ["75.0", "not asked"]
    assert quick["accuracy"][1]["value"] is None
    page = model(write_report([QUICK], tmp_path / "r.html", radii=[1.0]))
    assert page["runs"][0]["sentence"] == "quick: not asked about radius 1"


def test_cards_that_look_the_same_say_what_differs(tmp_path: Path) -> None:
    other = certified("other", Fixed(n=10_000), [1.0] * 4, classifier={"fingerprint": "b"})
    unlike = certified("unlike", Sequential(radius=0.5, n=10_000), [1.0, 1.0, 0.9, 0.9])
    again = certified("again", Fixed(n=10_000), [1.0, 1.0, 0.9, 0.4])
    runs = model(write_report([FIXED, QUICK, other, unlike, again], tmp_path / "r.html"))["runs"]
    draws = math.fsum(r.draws or 0 for r in QUICK.records) / 4
    factor = math.floor(10_100 / draws)
    assert factor >= 10
    assert runs[0]["beside"] == runs[2]["beside"] == "", "the first of its classifier"
    assert runs[1]["beside"] == f"The same answers as fixed at radius 0.25 and 0.5, with {factor} times fewer draws."
    assert runs[3]["beside"].startswith("1 of 4 answers differ from fixed at radius 0.5, with ")
    assert runs[4]["beside"] == "The same answers as fixed, with as many draws."
    assert [run["procedure"] for run in runs[:2]] == ["fixed, n = 10,000", "sequential at radius 0.25 and 0.5"]


def test_an_oracle_claims_nothing(tmp_path: Path) -> None:
    pair = [results("a"), results("b")]
    run = model(write_report([*pair, oracle(pair)], tmp_path / "r.html"))["runs"][2]
    assert run["name"] == "oracle (best of each input)"
    assert "No classifier does that; nothing is claimed" in run["claims"]


def test_a_disk_that_fills_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.html").write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_report([results()], tmp_path / "r.html")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("r.html", "old")]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = results(HOSTILE)
    names = {HOSTILE: [HOSTILE, HOSTILE + "'\"&\u2028"]}
    path = write_report([hostile], tmp_path / "r.html", class_names=names, command=HOSTILE)
    page = model(path)
    assert page["runs"][0]["name"] == HOSTILE
    assert page["runs"][0]["classes"] == {"0": HOSTILE, "1": HOSTILE + "'\"&\u2028"}
    assert "<img" not in page_text(tmp_path)


def test_nothing_is_fetched(tmp_path: Path) -> None:
    write_report([results()], tmp_path / "r.html")
    text = page_text(tmp_path).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\(|<link|\ssrc=", text)
    assert "default-src 'none'" in text


def test_pictures_are_exact_and_shared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    grey, colour = (rng.integers(256, size=(c, 5, 6), dtype=np.uint8) for c in (1, 3))
    images = {name: {0: grey, 1: colour} for name in ("a", "b")}
    page = model(write_report([results("a"), results("b")], tmp_path / "r.html", images=images))
    assert page["unit"] == "images"
    assert len(page["pictures"]) == 2
    for run in page["runs"]:
        assert run["records"]["picture"] == [0, 1, None, None, None, None, None]
    for uri, image in zip(page["pictures"], (grey[0], colour.transpose(1, 2, 0)), strict=True):
        with Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))) as read_back:
            assert np.array_equal(np.asarray(read_back), image)
    large = {"a": {0: np.zeros((3, 500, 250), dtype=np.uint8)}}
    uri = model(write_report([results("a")], tmp_path / "r.html", images=large))["pictures"][0]
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as small:
        assert small.size == (64, 128)


def test_ten_thousand_inputs_without_images_stay_below_two_megabytes(
    make_run: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [read(make_run(f"run{k}", range(1000), [100 - (i * k) % 60 for i in range(1000)])) for k in range(1, 6)]
    assert write_report(runs, tmp_path / "r.html").stat().st_size < 2_000_000
    assert write_report([results(inputs=10_000)], tmp_path / "r.html").stat().st_size < 2_000_000


def test_equal_results_give_an_equal_file(tmp_path: Path) -> None:
    paths = [write_report([results()], tmp_path / name) for name in ("a.html", "b.html")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"radii": []}, "radii must hold at least one"),
        ({"radii": [-1.0]}, "radii must be non-negative"),
        ({"images": {"run": {0: np.zeros((5, 5), np.uint8)}}}, "images must be uint8"),
        ({"images": {"run": {0: np.zeros((1, 5, 5))}}}, "images must be uint8"),
    ],
)
def test_what_cannot_work_is_refused_and_the_old_file_stays(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    (tmp_path / "r.html").write_text("old")
    with pytest.raises(InputError, match=words):
        write_report([results()], tmp_path / "r.html", **options)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("r.html", "old")]


def test_nothing_half_written_and_no_equal_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_report([results()], tmp_path / "nowhere" / "r.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        write_report([results()], tmp_path / "folder.html")
    with pytest.raises(InputError, match="different names"):
        write_report([results(), results()], tmp_path / "r.html")
    with pytest.raises(InputError, match="at least one"):
        write_report([], tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_whole_radii_have_whole_steps_and_nothing_right_still_makes_a_page(tmp_path: Path) -> None:
    ablation = Results("l0", tuple(Record(i, 0, 0, float(i)) for i in range(5)), settings=Settings(norm="l0"))
    page = model(write_report([ablation], tmp_path / "r.html"))
    assert page["scale"] == {"max": 4.0, "step": 1.0}
    assert page["picked"] in page["radii"]
    hopeless = Results("no", (Record(0, 1, 0, 0.5), Record(1, 1, ABSTAIN, 0.0)))
    page = model(write_report([hopeless], tmp_path / "r.html"))
    assert page["runs"][0]["accuracy"][0]["text"] == "0.0"
    assert page["scale"]["max"] == 1


def test_no_torch(tmp_path: Path) -> None:
    (tmp_path / "public.tsv").write_text(LOG)
    code = (
        "import sys; from smoothcert.analysis import read; from smoothcert.present.report import write_report;"
        f"write_report([read({str(tmp_path / 'public.tsv')!r})], {str(tmp_path / 'r.html')!r});"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
