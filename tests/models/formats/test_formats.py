"""Any model from the command line: certified, verified, compared and attacked like our own, whatever its format."""

import copy
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner, Result

import smoothcert as sc
from smoothcert.cli import app
from smoothcert.models import Architecture, build, fingerprint, formats, save
from smoothcert.models.formats.onnx import OnnxModel


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def certify(out: Path, *models: object, data: object = "digits", n: int = 200, more: tuple[object, ...] = ()) -> sc.Run:
    named = [word for model in models for word in ("--model", model)]
    done = call(
        "certify", *named, "--data", data, "--out", out, "--sigma", 0.25, "--n", n, "--limit", 2, "--workers", 1, *more
    )
    assert done.exit_code == 0, done.output
    return sc.Run.open(out)


FORMS = ["net.onnx", "fixed.onnx", "net.pt2", "fixed.pt2", "double.pt2", "net.pt", "my_models.py:net",
         "my_models.py:build", "my_models.py:double", "my_models.py:Net"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_each_format_is_certified_and_its_votes_are_made_again(form: str, zoo: Path, tmp_path: Path) -> None:
    run = certify(tmp_path / "run", zoo / form)
    loaded = sc.load_model(zoo / form)
    assert run.config.fingerprint == loaded.fingerprint is not None
    assert run.config.model.files == (form,)
    done = call("verify", tmp_path / "run", "--model", zoo / form, "--workers", 1)
    assert (done.exit_code, "2 of 2 records hold" in done.stdout) == (0, True), done.output


def test_formats_of_one_network_give_its_scores(zoo: Path) -> None:
    x = torch.rand(7, 1, 8, 8)
    torch.manual_seed(0)
    wanted = sc.load_model(zoo / "net.pt").model(x)
    for form in ("net.onnx", "fixed.onnx", "net.pt2", "fixed.pt2", "double.pt2"):
        torch.testing.assert_close(sc.load_model(zoo / form).model(x).float(), wanted, atol=1e-5, rtol=1e-4)
    assert sc.load_model(zoo / "double.pt2").model(x).dtype == torch.float64


@pytest.mark.parametrize("form", ["net.pt", "net.pt2", "my_models.py:net"])
def test_a_weight_changed_in_place_is_another_model(form: str, zoo: Path) -> None:
    found = sc.load_model(zoo / form)
    other = copy.deepcopy(found.model)
    assert fingerprint(other) == found.fingerprint
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1
    assert fingerprint(other) != found.fingerprint
    g, x = sc.Smoothed(found.model, 10, sc.Gaussian(0.25)), torch.rand(1, 1, 8, 8)
    before = g.certify(x, sc.Fixed(n=128))[0]
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.zero_()
    after = g.certify(x, sc.Fixed(n=128))[0]
    assert before.classifier["fingerprint"] != after.classifier["fingerprint"], "and is noticed between two calls"


def test_what_runs_code_says_so_and_what_has_no_fingerprint_says_so_first(zoo: Path, tmp_path: Path) -> None:
    for form, words in {
        "my_models.py:net": "the code of my_models.py is run",
        "net.pt": "using it runs the code in it",
        "net.pt2": "using it runs the graph in it",
        "my_models.py:function": "my_models.py:function has no fingerprint, so its run can be neither resumed",
        "my_models.py:Odd": "my_models.py:Odd has no fingerprint",
    }.items():
        out = tmp_path / form.replace(":", "-")
        done = call(
            "certify", "--model", zoo / form, "--data", "digits", "--out", out, "--sigma", 1, "--n", 128, "--limit", 1
        )
        assert done.exit_code == 0, done.output
        assert words in done.stderr.splitlines()[0]
    done = call("verify", tmp_path / "my_models.py-function", "--model", zoo / "my_models.py:function")
    assert (done.exit_code, "without a fingerprint" in done.stderr) == (2, True)
    again = call(
        "certify",
        "--model",
        zoo / "net.onnx",
        "--data",
        "digits",
        "--out",
        tmp_path / "o",
        "--sigma",
        1,
        "--n",
        128,
        "--limit",
        1,
    )
    assert "warning" not in again.stderr


def test_a_module_of_an_importable_package(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(zoo)
    found = sc.load_model("my_models:Net")
    assert (found.architecture.num_classes, found.architecture.input_shape) == (10, (1, 8, 8))
    assert found.details["class_names"][:2] == ["a", "b"]


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "auto", "onnxruntime-int8"])
def test_an_onnx_file_in_each_backend(backend: str, zoo: Path, tmp_path: Path) -> None:
    more = ("--backend", backend, *(("--calibration", "digits:train") if "int8" in backend else ()))
    for form in ("net.onnx", "fixed.onnx") if backend == "openvino" else ("net.onnx",):
        run = certify(tmp_path / form, zoo / form, more=more)
        if backend != "auto":
            assert run.config.backend == backend
        done = call("verify", tmp_path / form, "--model", zoo / form)
        assert done.exit_code == 0, done.output


def test_onnx_is_run_by_its_own_runtime_unless_asked(zoo: Path) -> None:
    x, noise = torch.rand(1, 1, 8, 8), sc.Gaussian(0.25)
    model = sc.load_model(zoo / "net.onnx").model
    assert sc.Smoothed(model, 10, noise).describe(x)["backend"]["name"] == "onnxruntime"
    with pytest.warns(UserWarning, match="it is an ONNX file, which torch does not run.*it is run by onnxruntime"):
        assert sc.Smoothed(model, 10, noise, backend="compile").describe(x)["backend"]["name"] == "onnxruntime"


def test_ensembles_of_formats(zoo: Path, tmp_path: Path) -> None:
    """Two ONNX files, and one beside a network of ours; from the command line and from an ensemble file."""
    spec = Architecture("lenet", 10, (1, 8, 8))
    save(tmp_path / "ours.safetensors", build(spec, seed=0), spec, {})
    for name, members in {
        "two": (zoo / "net.onnx", zoo / "other.onnx"),
        "mixed": (tmp_path / "ours.safetensors", zoo / "net.onnx"),
    }.items():
        run = certify(tmp_path / name, *members)
        done = call(
            "ensemble", "make", *(word for m in members for word in ("--model", m)), "--out", tmp_path / f"{name}.json"
        )
        assert done.exit_code == 0, done.output
        assert sc.load_model(tmp_path / f"{name}.json").fingerprint == run.config.fingerprint
        done = call("verify", tmp_path / name, "--model", tmp_path / f"{name}.json")
        assert done.exit_code == 0, done.output
    mixed = sc.Run.open(tmp_path / "mixed").config.classifier["backend"]
    assert (mixed["name"], mixed["members"]) == ("eager", "eager,onnxruntime")
    ranked = call(
        "ensemble",
        "rank",
        "--model",
        zoo / "net.onnx",
        "--model",
        zoo / "other.onnx",
        "--data",
        "digits",
        "--sigma",
        0.25,
        "--limit",
        20,
        "--json",
    )
    assert ranked.exit_code == 0, ranked.output
    done = call(
        "ensemble",
        "make",
        "--model",
        zoo / "my_models.py:net",
        "--model",
        zoo / "net.onnx",
        "--out",
        tmp_path / "code.json",
    )
    assert (done.exit_code, "brings code of its own, which a file that names it must not run" in done.stderr) == (
        2,
        True,
    )


def test_report_and_compare_take_them_and_attack_says_what_it_needs(zoo: Path, tmp_path: Path) -> None:
    for form in ("net.onnx", "net.pt2"):
        certify(tmp_path / form, zoo / form)
    page = tmp_path / "page.html"
    assert call("report", tmp_path / "net.onnx", tmp_path / "net.pt2", "--out", page).exit_code == 0
    assert "--backend onnxruntime" in page.read_text()
    assert call("compare", tmp_path / "net.onnx", tmp_path / "net.pt2").exit_code == 0
    done = call("attack", "--run", tmp_path / "net.onnx", "--model", zoo / "net.onnx")
    assert (done.exit_code, "attack needs a model with gradients" in done.stderr) == (2, True)
    options = ["--steps", 1, "--draws", 2, "--votes", 64, "--limit", 1, "--radii", "0.5", "--attack", "pgd"]
    done = call("attack", "--run", tmp_path / "net.pt2", "--model", zoo / "net.pt2", *options)
    assert done.exit_code == 0, done.output


def test_weights_beside_the_file_and_several_outputs(zoo: Path, tmp_path: Path) -> None:
    proto = onnx.load(zoo / "net.onnx")
    onnx.save(proto, tmp_path / "ext.onnx", save_as_external_data=True, location="ext.bin", size_threshold=0)
    features = proto.graph.node[0].output[0]
    proto.graph.output.insert(0, onnx.helper.make_tensor_value_info(features, 1, None))
    onnx.save(proto, tmp_path / "two.onnx")
    x = torch.rand(3, 1, 8, 8)
    plain = sc.load_model(zoo / "net.onnx")
    for name in ("ext.onnx", "two.onnx"):
        found = sc.load_model(tmp_path / name)
        assert torch.equal(found.model(x), plain.model(x))
        assert found.fingerprint != plain.fingerprint
    before = sc.load_model(tmp_path / "ext.onnx").fingerprint
    data = bytearray((tmp_path / "ext.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "ext.bin").write_bytes(bytes(data))
    assert sc.load_model(tmp_path / "ext.onnx").fingerprint != before, "the weights beside it count"


def test_a_vision_transformer_of_hugging_face(vit: Path, tmp_path: Path) -> None:
    from transformers import ViTForImageClassification

    found = sc.load_model(vit)
    x = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(found.model(x), ViTForImageClassification.from_pretrained(vit).eval()(pixel_values=x).logits)
    assert found.architecture.to_json() == {
        "name": "huggingface:ViTForImageClassification", "num_classes": 10, "input_shape": [1, 8, 8],
    }  # fmt: skip
    run = certify(tmp_path / "run", vit)
    assert run.config.fingerprint == found.fingerprint
    done = call("verify", tmp_path / "run", "--model", vit)
    assert done.exit_code == 0, done.output


def test_a_real_network_from_a_wheel_votes_as_onnx_runtime_does(text_direction: Path, tmp_path: Path) -> None:
    """RapidOCR's text direction, certified by the command line; and ONNX Runtime called by hand on the same noise."""
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 64), dtype=np.uint8)
    np.savez(tmp_path / "lines.npz", x_test=images, y_test=np.array([0, 1]))
    run = certify(tmp_path / "run", text_direction, data=tmp_path / "lines.npz", n=128)
    session = onnxruntime.InferenceSession(text_direction, providers=["CPUExecutionProvider"])

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])

    g = sc.Smoothed(by_hand, 2, sc.Gaussian(0.25, grid=1 / 255), seed=0)
    direct = g.certify(torch.from_numpy(images).float() / 255, sc.Fixed(n=128))
    assert [list(one.votes) for one in run.certificates()] == [list(one.votes) for one in direct]
    assert 0 < sum(one.votes[0] for one in direct) < 256, "both classes are voted for"
    about = run.config.classifier["backend"]
    assert (about["name"], about["version"]) == ("onnxruntime", onnxruntime.__version__)


def test_a_network_of_whole_numbers_is_refused_and_fits_behind_a_wrapper(file_type: Path, tmp_path: Path) -> None:
    """Magika takes bytes of a file as whole numbers: noise needs somebody to say how real numbers become bytes."""
    with pytest.raises(sc.InputError, match=r"takes int32 numbers \(bytes\), but noise makes real numbers of inputs"):
        sc.load_model(file_type)
    (tmp_path / "magika_net.py").write_text(
        "import onnxruntime, torch\n"
        "options = onnxruntime.SessionOptions()\n"
        "options.intra_op_num_threads = 1\n"
        f"session = onnxruntime.InferenceSession({str(file_type)!r}, options, providers=['CPUExecutionProvider'])\n"
        "def net(x):\n"
        "    levels = (x * 255).round().clamp(0, 255).int().numpy()\n"
        "    return torch.from_numpy(session.run(None, {'bytes': levels})[0])\n"
        "net.fingerprint = 'magika standard_v3_3, levels of 255'\n"
    )
    content = [np.frombuffer((line * 300)[:2048], dtype=np.uint8) for line in (b"import os\n", b"<html></html>\n")]
    np.savez(tmp_path / "files.npz", x_test=np.stack(content) / 255, y_test=np.array([0, 1]))
    run = certify(
        tmp_path / "run",
        tmp_path / "magika_net.py:net",
        data=tmp_path / "files.npz",
        n=32,
        more=("--grid", "off", "--n0", 16, "--limit", 1),
    )
    assert run.config.num_classes == 214
    assert run.config.fingerprint == "magika standard_v3_3, levels of 255"


def test_our_formats_are_listed_for_whoever_adds_one() -> None:
    assert {
        "safetensors",
        "onnx",
        "torch.export",
        "torchscript",
        "python",
        "huggingface",
        "published",
        "ensemble",
    } <= set(formats.FORMATS)
    assert json.dumps(formats.Signature("onnx", 2, (3, 4)).to_json())
    assert not OnnxModel.has_gradients
