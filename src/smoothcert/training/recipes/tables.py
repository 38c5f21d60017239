"""The settings of the papers, one row per data set and objective; values of several sigmas stand in `Each`.

Zhai 2020 (MACER), Salman 2019 (SmoothAdv), Cohen 2019 (Gaussian), Jeong & Shin 2020 (Consistency), Jeong 2021
(SmoothMix), Jeong 2023 (CAT-RS), Li 2019 (Stability), Liu 2023 (AdvMacer), Horvath 2022 (VRC), Salman 2020 (denoised
smoothing), Alfarra 2022 (DDRS), Yang 2020 (uniform), Teng 2020 (Laplace), Lee 2019 (ablation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcert.training.recipes.writing import (
    advmacer,
    at,
    carried,
    catrs,
    consistency,
    ds2,
    each,
    macer,
    pgd,
    smoothadv,
    smoothmix,
    steps,
)


@dataclass(frozen=True)
class Row:
    """An objective on a data set. `method` is its part of the name; unset fields come from the data set's defaults.

    `split`: a batch of m draws is m steps, of 1/m of its inputs each, as in the code of Jeong & Shin 2020.
    """

    method: str
    objective: dict[str, Any]
    source: str
    training: dict[str, Any]
    sigmas: tuple[float, ...] = (0.25, 0.5, 1.0)
    split: bool = False
    denoiser: str | None = None  # the network, instead of those of the data set; it takes raw pixels
    noise: dict[str, Any] | None = None  # a name, and options besides its strength, which is `sigma`; None: Gaussian
    tunes: str | None = None  # the method whose model it goes on with
    networks: tuple[str, ...] = ()  # instead of those of the data set


MNIST = {"epochs": 90, "lr": 0.01, "batch_size": 256, "schedule": steps(30), "weight_decay": 1e-4}
CIFAR = {"epochs": 150, "lr": 0.1, "batch_size": 256, "schedule": steps(50), "weight_decay": 1e-4}
MACER = {"epochs": 440, "lr": 0.01, "batch_size": 64, "schedule": at(200, 400), "weight_decay": 5e-4}
IMAGENET = {"epochs": 90, "lr": 0.1, "batch_size": 256, "schedule": steps(30), "weight_decay": 1e-4}
IMAGENET_MACER = IMAGENET | {"epochs": 120, "schedule": at(30, 60, 90)}
LONG = CIFAR | {"epochs": 400, "lr": 0.01, "schedule": at(150, 300)}
ADAM = {"epochs": 90, "lr": 0.001, "batch_size": 256, "schedule": steps(30), "weight_decay": 1e-4, "optimizer": "adam"}
ONE_CYCLE: dict[str, Any] = {"schedule": {"name": "one-cycle"}, "nesterov": True, "batch_size": 128, "lr": 0.1}

GAUSSIAN = {"name": "gaussian"}
STABILITY = {"name": "stability", "lam": 2.0}


MNIST_ATTACK = pgd(1.0, 10)
CIFAR_ATTACK = pgd(each(1.0, 2.0, 2.0), each(10, 2, 10))  # Horvath 2022
IMAGENET_ATTACK = pgd(each(0.5, 1.0, 1.0), 1)
COHEN, LI = "Cohen 2019", "Li 2019; lambda as in Jeong & Shin 2020"
SALMAN, ZHAI = "Salman 2019", "Zhai 2020, section 5.1 and appendix C"
DENOISED = "Salman 2020; objective.classifier=CHECKPOINT makes it their stability objective"
ADAM_DENOISED = f"{DENOISED}; optimiser, rate, schedule and width as the defaults of their code"
SWEEN = "Liu 2021, appendix C.1; batches, momentum and decay, which it does not state, are of Cohen 2019"
PLAIN = "Zhai 2020, section 5.1: Cohen 2019 as MACER with one draw and lambda 0"
ZHAI_MNIST = "Zhai 2020, section 5.1 and appendix C.2.1; batches and decay, which it does not state, as on CIFAR-10"
ZHAI_T10 = "Salman 2019; m, T and eps of the models that Zhai 2020 compares with (tables 4 and 5)"
ALFARRA = "Alfarra 2022, section 4"
ALFARRA_18 = (
    f"{ALFARRA}; ResNet-18 there, in their code without its first batch-norm; batches, rate and decay, which the paper "
    "does not state, are of the method's authors"
)
ALFARRA_TUNED = (
    f"{ALFARRA}: 30 epochs from the authors' model; the rate, which it does not state, is the last of theirs"
)
MNIST_ALFARRA = f"{ALFARRA}; not on MNIST there: the objective as without ds2"
MNIST_DS2, MNIST_DS2_8 = MNIST | {"ds2": ds2(90)}, MNIST | {"ds2": ds2(90, draws=8)}
CIFAR_DS2 = CIFAR | {"epochs": 200, "ds2": ds2(200)}
MACER_DS2 = MACER | {"epochs": 200, "schedule": at(80, 160), "ds2": ds2(200, draws=8)}
IMAGENET_DS2 = IMAGENET | {"epochs": 30, "lr": 0.001, "ds2": {"start": 0, "lr": 1e-4, "draws": 1}}
DS2_SIGMAS = (0.12, 0.25, 0.5)
UNIFORM, LAPLACE = {"name": "uniform"}, {"name": "laplace"}
ABLATION, BINARY_ABLATION = {"name": "ablation", "values": 256}, {"name": "ablation", "values": 2}
YANG = "Yang 2020; half widths of Alfarra 2022, table 11, and of Horvath 2022, table 19 (1)"
TENG, LEE = "Teng 2020; scales are ours", "Lee 2019; kept shares of Horvath 2022, tables 17 and 18"
TUNE = {"epochs": 4, "lr": 0.01, "batch_size": 128, "schedule": {"name": "cosine"}, "weight_decay": 1e-4}
EASY = {
    "epochs": 10,
    "lr": 0.03,
    "batch_size": 128,
    "schedule": {"name": "one-cycle"},
    "weight_decay": 5e-4,
    "nesterov": True,
    "discard": {"start": 0, "below": 0.5, "draws": 8},
}
EASY_SOURCE = "ours: Jeong & Shin 2020 after itself, without the training images that it gets wrong (after Sun 2025)"
ALFARRA_NETWORKS = ("resnet110", "resnet20", "resnet18")
FOUR = (0.12, 0.25, 0.5, 1.0)
CAT = "Jeong 2023; objective.teacher=CHECKPOINT for soft targets"
JEONG, MIX, LIU = "Jeong & Shin 2020", "Jeong 2021", "Liu 2023, section 4 and appendix"

ROWS: dict[str, tuple[Row, ...]] = {
    "mnist": (
        Row("gaussian", GAUSSIAN, f"{COHEN}; MNIST as in Jeong & Shin 2020", MNIST, FOUR),
        Row("gaussian-440", GAUSSIAN, PLAIN, MACER),
        Row("macer-440", macer(16.0), ZHAI_MNIST, MACER),
        Row("stability", STABILITY, LI, MNIST),
        Row(
            "macer",
            macer(each(16.0, 16.0, 16.0, 6.0), deferred_until=30),
            f"{ZHAI}; epochs, batches, lambda and its delay as in Jeong 2021, at sigma 0.12 as at 0.25",
            MNIST,
            FOUR,
        ),
        # The paper's beta and lambda from the start undo what a short training learnt; at a low rate afterwards, with
        # beta 1, they add to it.
        Row("macer-tune", macer(5.0, beta=1.0), "ours: MACER at a low rate after Gaussian", TUNE, tunes="gaussian"),
        Row("uniform", GAUSSIAN, f"{YANG}; MNIST as Gaussian", MNIST, noise=UNIFORM),
        Row("laplace", GAUSSIAN, f"{TENG}; MNIST as Gaussian", MNIST, noise=LAPLACE),
        Row("consistency", consistency(each(10.0, 5.0, 5.0)), JEONG, MNIST, split=True),
        Row(
            "smoothadv", smoothadv(4, MNIST_ATTACK), f"{SALMAN}; MNIST as in Jeong & Shin 2020", MNIST, FOUR, split=True
        ),
        Row(
            "smoothadv-consistency",
            consistency(each(10.0, 5.0, 5.0), draws=4, attack=MNIST_ATTACK, warmup=10),
            f"{JEONG}; draws and attack of SmoothAdv",
            MNIST,
            split=True,
        ),
        Row(
            "smoothadv-consistency-t1",
            consistency(each(10.0, 5.0, 5.0), draws=2, attack=pgd(1.0, 1), warmup=10),
            f"ours: {JEONG} at SmoothAdv's point, found in one step with two draws",
            MNIST,
            split=True,
        ),
        Row(
            "smoothadv-consistency-carried",
            consistency(each(10.0, 5.0, 5.0), draws=2, attack=carried(1.0), warmup=10),
            f"ours: {JEONG} at SmoothAdv's point, of an attack that goes on from epoch to epoch",
            MNIST,
            split=True,
        ),
        Row("smoothmix", smoothmix(4, each(2, 4, 8), 1.0), MIX, MNIST, split=True),
        Row("catrs", catrs(each(1.0, 1.0, 2.0)), f"{CAT}; lambda above .25 is ours", MNIST),
        Row(
            "advmacer", advmacer(12.0, 4, MNIST_ATTACK), f"{LIU}; not on MNIST there: draws, attack of SmoothAdv", MNIST
        ),
        Row("gaussian-ds2", GAUSSIAN, MNIST_ALFARRA, MNIST_DS2, FOUR),
        Row("smoothadv-ds2", smoothadv(4, MNIST_ATTACK), MNIST_ALFARRA, MNIST_DS2, FOUR, split=True),
        Row("macer-ds2", macer(each(16.0, 16.0, 16.0, 6.0), deferred_until=30), MNIST_ALFARRA, MNIST_DS2_8, FOUR),
        Row("advmacer-ds2", advmacer(12.0, 4, MNIST_ATTACK), MNIST_ALFARRA, MNIST_DS2_8),
        # At 0.01 the last convolution, whose 576 inputs are not centred, diverges.
        Row("denoising", {"name": "denoising"}, f"{DENOISED}; SGD for Adam", MNIST | {"lr": 0.003}, denoiser="dncnn"),
        Row("denoising-adam", {"name": "denoising"}, ADAM_DENOISED, ADAM, denoiser="dncnn"),
        Row("denoising-adam", {"name": "denoising"}, ADAM_DENOISED, ADAM, denoiser="dncnn-wide"),
    ),
    "mnist-binary": (Row("ablation", GAUSSIAN, f"{LEE}; MNIST as Gaussian", MNIST, (0.8,), noise=BINARY_ABLATION),),
    "cifar10": (
        Row("gaussian", GAUSSIAN, COHEN, CIFAR),
        Row("uniform", GAUSSIAN, YANG, CIFAR, noise=UNIFORM),
        Row("laplace", GAUSSIAN, TENG, CIFAR, noise=LAPLACE),
        Row("gaussian-400", GAUSSIAN, SWEEN, LONG),
        Row("gaussian-200", GAUSSIAN, ALFARRA_18, CIFAR | {"epochs": 200}, DS2_SIGMAS, networks=ALFARRA_NETWORKS),
        Row("smoothadv-t10", smoothadv(each(8, 2, 2), pgd(each(1.0, 2.0, 2.0), 10)), ZHAI_T10, CIFAR),
        Row(
            "smoothadv-200",
            smoothadv(1, pgd(0.25, 2)),
            ALFARRA_18,
            CIFAR | {"epochs": 200},
            DS2_SIGMAS,
            networks=ALFARRA_NETWORKS,
        ),
        Row(
            "macer-200",
            macer(12.0, draws=64),
            ALFARRA_18,
            MACER | {"epochs": 200, "schedule": at(80, 160)},
            DS2_SIGMAS,
            networks=ALFARRA_NETWORKS,
        ),
        Row("stability", STABILITY, LI, CIFAR),
        Row("smoothadv", smoothadv(each(8, 2, 2), CIFAR_ATTACK), f"{SALMAN}; T and m of Horvath 2022", CIFAR),
        Row("smoothadv-t2", smoothadv(each(8, 8, 4), pgd(each(1.0, 2.0, 2.0), 2)), SALMAN, CIFAR),
        Row("macer", macer(each(12.0, 4.0, 12.0), deferred_until=each(0, 0, 200)), ZHAI, MACER),
        Row(
            "macer-150",
            macer(each(12.0, 4.0, 12.0), deferred_until=each(0, 0, 60)),
            f"{ZHAI}; 150 epochs",
            MACER | {"epochs": 150, "schedule": at(60, 120)},
        ),
        Row("advmacer", advmacer(12.0, each(8, 8, 4), pgd(each(1.0, 2.0, 2.0), 2)), f"{LIU}, table 2", CIFAR),
        Row("consistency", consistency(each(20.0, 10.0, 10.0)), JEONG, CIFAR, split=True),
        Row("consistency-easy", consistency(each(20.0, 10.0, 10.0)), EASY_SOURCE, EASY, tunes="consistency"),
        Row("smoothmix", smoothmix(2, 4, each(0.5, 1.0, 2.0)), MIX, CIFAR, split=True),
        Row("catrs", catrs(each(0.5, 1.0, 2.0)), CAT, CIFAR),
        Row(
            "gaussian-ds2",
            GAUSSIAN,
            f"{ALFARRA}; ResNet-18 there",
            CIFAR_DS2,
            DS2_SIGMAS,
            networks=ALFARRA_NETWORKS,
        ),
        Row(
            "smoothadv-ds2",
            smoothadv(1, pgd(0.25, 2)),
            f"{ALFARRA}; ResNet-18 there, and tuned from SmoothAdv's model",
            CIFAR_DS2,
            DS2_SIGMAS,
            networks=ALFARRA_NETWORKS,
        ),
        Row(
            "macer-ds2",
            macer(12.0, draws=64),
            f"{ALFARRA}; ResNet-18 there",
            MACER_DS2,
            DS2_SIGMAS,
            networks=ALFARRA_NETWORKS,
        ),
        Row("denoising-adam", {"name": "denoising"}, ADAM_DENOISED, ADAM, denoiser="dncnn"),
        Row("denoising-adam", {"name": "denoising"}, ADAM_DENOISED, ADAM, denoiser="dncnn-wide"),
        Row(
            "advmacer-ds2",
            advmacer(12.0, 8, pgd(each(1.0, 1.0, 2.0), 2)),
            f"{ALFARRA}; not there: AdvMacer as of Liu 2023",
            CIFAR | {"epochs": 200, "ds2": ds2(200, draws=8)},
            DS2_SIGMAS,
        ),
    ),
    "svhn": (
        Row("gaussian", GAUSSIAN, PLAIN, MACER, (0.25, 0.5)),
        Row("gaussian-400", GAUSSIAN, SWEEN, LONG, (0.25, 0.5)),
        Row("macer", macer(12.0), ZHAI, MACER, (0.25, 0.5)),
        Row("smoothadv", smoothadv(4, pgd(each(0.5, 0.25), 2)), LIU, CIFAR | {"lr": 0.01}, (0.25, 0.5)),
        Row("advmacer", advmacer(each(12.0, 4.0), 4, pgd(0.5, 2)), LIU, CIFAR | {"lr": 0.01}, (0.25, 0.5)),
    ),
    "imagenet": (
        Row("gaussian", GAUSSIAN, COHEN, IMAGENET),
        Row("uniform", GAUSSIAN, YANG, IMAGENET, noise=UNIFORM),
        Row("ablation", GAUSSIAN, LEE, IMAGENET, (0.2,), noise=ABLATION),
        Row("smoothadv", smoothadv(1, IMAGENET_ATTACK), SALMAN, IMAGENET),
        Row(
            "smoothadv-best",
            smoothadv(1, {"name": each("ddn", "pgd", "pgd"), "eps": each(1.0, 1.0, 2.0), "steps": each(2, 1, 1)}),
            ZHAI_T10,
            IMAGENET,
        ),
        Row("macer", macer(each(6.0, 3.0, 3.0), draws=2), ZHAI, IMAGENET_MACER),
        Row("smoothadv-half", smoothadv(1, pgd(0.5, 1)), f"{SALMAN}; eps of {LIU}", IMAGENET),
        Row("advmacer", advmacer(2.0, 1, pgd(0.5, 1)), LIU, IMAGENET),
        Row("gaussian-ds2", GAUSSIAN, ALFARRA_TUNED, IMAGENET_DS2, tunes="gaussian"),
        Row("smoothadv-ds2", smoothadv(1, IMAGENET_ATTACK), ALFARRA_TUNED, IMAGENET_DS2, tunes="smoothadv"),
        Row(
            "consistency",
            consistency(each(10.0, 5.0, 5.0), each(0.5, 0.5, 0.1)),
            f"{JEONG}; at sigma 0.25 Horvath 2022, appendix G.4",
            IMAGENET,
            split=True,
        ),
    ),
}
