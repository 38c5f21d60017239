"""Two examples of every command, which its help ends with. A test parses each of them."""

from __future__ import annotations

EXAMPLES = {
    "train": (
        "train cifar10-resnet20-consistency-0.25-fast --out nets/a",
        "train mnist-lenet-gaussian-0.50-fast --seeds 0-4 --out nets/five",
    ),
    "recipes": ("recipes", "recipes 'mnist*macer*'"),
    "certify": (
        "certify --model net.safetensors --data cifar10 --every 20 --sigma 0.25 --out runs/a",
        "certify --model net.safetensors --data photos --resize 256 --crop 224 --out runs/b",
    ),
    "predict": (
        "predict --model net.safetensors --run runs/a --input cat.png dog.png",
        "predict --model net.safetensors --sigma 0.25 --certify --n 10000 --input photos --out answers.csv",
    ),
    "analyze": ("analyze runs/a runs/b public-log.tsv --figure curves.png", "analyze runs --radii 0,0.5,1 --latex"),
    "compare": ("compare runs/a runs/b", "compare runs/a runs/b --radii 0.25,0.5 --figure scatter.png"),
    "report": ("report runs/a runs/b --out report.html", "report runs/b --data photos --out photos.html"),
    "verify": ("verify runs/a", "verify runs/a --model net.safetensors --share 0.1 --fresh 1000"),
    "attack": (
        "attack --run runs/a --model net.safetensors --figure attack.png",
        "attack --run runs/a --model net.safetensors --attack autoattack --limit 100",
    ),
    "study": (
        "study digits --out studies/digits",
        "study macer-1 --scale mnist --set objective.draws=1,4,16 --out sweep",
    ),
    "board": ("board runs/a", "board runs/a runs/b --radii 0.25,0.5"),
    "zoo": ("zoo", "zoo mnist-0.50"),
    "serve": (
        "serve --model net.safetensors --run runs/a --out served",
        "serve --model net.safetensors --sigma 0.25 --radius 0.5 --memory regions.sqlite --port 9000",
    ),
    "serve reveal": ("serve reveal served", "serve reveal /srv/smoothcert/served"),
    "demo": ("demo", "demo --limit 20 --out show"),
    "model import": (
        "model import checkpoint.pth.tar --arch cifar-resnet110 --sigma 0.25 --out net.safetensors",
        "model import my_models.py:net --data photos --out net.safetensors",
    ),
    "model info": ("model info net.onnx", "model info net.safetensors --data cifar10 --json"),
    "model export": ("model export net.safetensors --out net.onnx", "model export zoo:mnist-0.50 --out net.onnx"),
    "ensemble make": (
        "ensemble make --model a.safetensors --model b.safetensors --out two.json",
        "ensemble make --model a.safetensors --model b.safetensors --aggregation consensus --k 2 --out two.json",
    ),
    "ensemble rank": (
        "ensemble rank --model a.safetensors --model b.safetensors --data cifar10",
        "ensemble rank --model a.safetensors --model b.safetensors --data cifar10 --out ranked.json",
    ),
    "ensemble weights": (
        "ensemble weights --model a.safetensors --model b.safetensors --data cifar10 --out weighted.json",
        "ensemble weights --model a.safetensors --model b.safetensors --data cifar10 --method minimum-variance",
    ),
    "ensemble plan": (
        "ensemble plan --model a.safetensors --model b.safetensors --data cifar10",
        "ensemble plan --model a.safetensors --model b.safetensors --data cifar10 --sizes 1,5,50 --n 10000",
    ),
    "figure members": (
        "figure members margins --model a.safetensors --model b.safetensors --data cifar10 --out margins.png",
        "figure members covariance --model a.safetensors --model b.safetensors --model c.safetensors --data cifar10 "
        "--out covariance.png",
    ),
    "figure radius": ("figure radius --out radius.png", "figure radius --sigma 0.5 --p 0.7,0.9,0.99 --out radius.pdf"),
    "figure stages": (
        "figure stages --out stages.png",
        "figure stages --radius 0.5 --sigma 0.5 --stages 1000,120000 --alpha 0.001 --beta 0.001,0.1 --out stages.svg",
    ),
    "figure noise": (
        "figure noise runs/d --out noise.png",
        "figure noise runs/d --rows 5 --data photos --out noise.pdf",
    ),
    "figure progress": (
        "figure progress nets/macer nets/advmacer --data cifar10 --every 20 --runs runs/progress --out progress.png",
        "figure progress nets/a --data mnist5k --limit 50 --n 200 --runs runs/progress --out progress.png",
    ),
    "memory info": ("memory info regions.sqlite", "memory info postgresql://me@host/regions --json"),
    "memory check": ("memory check regions.sqlite", "memory check regions.sqlite --json"),
    "memory export": (
        "memory export regions.sqlite --out regions.npz",
        "memory export postgresql://me@host/regions --out regions.npz",
    ),
}


def examples(command: str) -> str | None:
    """The end of a command's help; a blank line between examples keeps each on lines of its own."""
    found = EXAMPLES.get(command, ())
    return "\n\n".join(["Examples:", *(f"smoothcert {example}" for example in found)]) if found else None
