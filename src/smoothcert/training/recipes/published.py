"""The ACR that papers and public logs have for recipes: of the same network, objective and schedule only."""

from __future__ import annotations

_LOGS = "public logs of Jeong & Shin 2020 and Jeong 2021: 10000 images, mean of 5 runs"
_ONE_LOG = "public log of Jeong & Shin 2020: 10000 images, one run"
_COHEN_LOGS = "public logs of Cohen 2019: 500 images"
_ZHAI = "Zhai 2020: 500 images, from the 501st on"
_LIU = "Liu 2023: 500 images"
_HORVATH = "Horvath 2022, table {}: 500 images, every 20th, the best of several by images that were not certified"
_HORVATH_8 = f"{_HORVATH.format(8)}; Nesterov momentum there"
PUBLISHED: dict[tuple[str, str, str], tuple[str, dict[float, float]]] = {
    ("mnist", "lenet", "gaussian"): (_LOGS, {0.25: 0.9108, 0.5: 1.5581, 1.0: 1.6184}),
    ("mnist", "lenet", "stability"): (_LOGS, {0.25: 0.9152, 0.5: 1.5719, 1.0: 1.6341}),
    ("mnist", "lenet", "macer"): (_LOGS, {0.25: 0.9201, 0.5: 1.5899, 1.0: 1.5950}),
    ("mnist", "lenet", "consistency"): (_LOGS, {0.25: 0.9282, 0.5: 1.6549, 1.0: 1.7377}),
    ("mnist", "lenet", "smoothadv"): (_LOGS, {0.25: 0.9322, 0.5: 1.6872, 1.0: 1.7786}),
    ("mnist", "lenet", "smoothadv-consistency"): (_LOGS, {0.25: 0.9323, 0.5: 1.6957, 1.0: 1.8163}),
    ("mnist", "lenet", "smoothmix"): (f"{_LOGS}; the best of their settings", {0.25: 0.9335, 0.5: 1.6945, 1.0: 1.8230}),
    ("mnist", "lenet", "catrs"): ("log of Jeong 2023, one run", {0.25: 0.9331, 0.5: 1.6999, 1.0: 1.8306}),
    ("cifar10", "resnet110", "catrs"): ("log of Jeong 2023, one run", {0.25: 0.5616, 0.5: 0.7571, 1.0: 0.8148}),
    ("cifar10", "resnet110", "stability"): (_ONE_LOG, {0.25: 0.4199, 0.5: 0.5312, 1.0: 0.5145}),
    ("cifar10", "resnet20", "stability"): (_ONE_LOG, {0.5: 0.4992}),
    ("cifar10", "resnet110", "gaussian"): (_COHEN_LOGS, {0.25: 0.4289, 0.5: 0.5375, 1.0: 0.5417}),
    ("cifar10", "resnet110", "consistency"): (_HORVATH_8, {0.25: 0.546, 0.5: 0.708, 1.0: 0.778}),
    ("cifar10", "resnet110", "smoothadv-t2"): (f"{_LIU}, table 2", {0.25: 0.541, 0.5: 0.735, 1.0: 0.758}),
    ("cifar10", "resnet110", "macer"): (f"{_ZHAI}, table 1", {0.25: 0.556, 0.5: 0.726, 1.0: 0.792}),
    ("cifar10", "resnet110", "macer-150"): (f"{_ZHAI}, table 8", {0.25: 0.531, 0.5: 0.712}),
    ("cifar10", "resnet110", "advmacer"): (f"{_LIU}, table 2", {0.25: 0.554, 0.5: 0.742, 1.0: 0.794}),
    ("cifar10", "resnet20", "gaussian"): (_HORVATH_8, {0.25: 0.434, 0.5: 0.534, 1.0: 0.538}),
    ("cifar10", "resnet20", "consistency"): (_HORVATH_8, {0.25: 0.528, 0.5: 0.691, 1.0: 0.757}),
    ("cifar10", "resnet20", "uniform"): (f"{_HORVATH.format(19)}; Nesterov momentum there", {1.0: 0.571}),
    ("cifar10", "resnet110", "smoothadv"): (_HORVATH_8, {0.25: 0.527, 0.5: 0.707, 1.0: 0.844}),
    ("cifar10", "resnet110", "smoothadv-t10"): (f"{_ZHAI}, table 1", {0.25: 0.538, 0.5: 0.709, 1.0: 0.787}),
    ("cifar10", "resnet110", "gaussian-400"): ("Liu 2021, table 1", {0.25: 0.489, 0.5: 0.573, 1.0: 0.559}),
    ("cifar10", "resnet110", "smoothmix"): (f"{_LIU}, table 1", {0.25: 0.545, 0.5: 0.685, 1.0: 0.626}),
    ("mnist", "lenet", "gaussian-440"): ("Zhai 2020, table 6", {0.25: 0.887, 0.5: 1.453, 1.0: 1.417}),
    ("mnist", "lenet", "macer-440"): ("Zhai 2020, table 6", {0.25: 0.918, 0.5: 1.583, 1.0: 1.520}),
    ("svhn", "resnet110", "gaussian"): ("Zhai 2020, table 7", {0.25: 0.469, 0.5: 0.434}),
    ("imagenet", "resnet50", "gaussian"): (
        "Zhai 2020, table 2: the models of Cohen 2019",
        {0.25: 0.470, 0.5: 0.720, 1.0: 0.863},
    ),
    ("imagenet", "resnet50", "smoothadv-best"): ("Zhai 2020, table 2", {0.25: 0.528, 0.5: 0.815, 1.0: 1.003}),
    ("imagenet", "resnet50", "consistency"): (
        "Horvath 2022, table 9: the first of three; Nesterov momentum there",
        {0.25: 0.512, 0.5: 0.793, 1.0: 1.022},
    ),
    ("svhn", "resnet110", "smoothadv"): (f"{_LIU}, table 8", {0.25: 0.560, 0.5: 0.552}),
    ("svhn", "resnet110", "macer"): ("Zhai 2020, table 7", {0.25: 0.540, 0.5: 0.538}),
    ("svhn", "resnet110", "advmacer"): (f"{_LIU}, table 8", {0.25: 0.569, 0.5: 0.572}),
    # At sigma 0.5 and 1 Liu 2023 (section 4) took eps = 0.5 too, where smoothadv has 1.0.
    ("imagenet", "resnet50", "smoothadv"): (f"{_LIU}, table 4", {0.25: 0.519}),
    ("imagenet", "resnet50", "smoothadv-half"): (f"{_LIU}, table 4", {0.25: 0.519, 0.5: 0.801, 1.0: 0.971}),
    ("imagenet", "resnet50", "macer"): ("Zhai 2020, table 2", {0.25: 0.544, 0.5: 0.831, 1.0: 1.008}),
    ("imagenet", "resnet50", "advmacer"): (f"{_LIU}, table 4", {0.25: 0.537, 0.5: 0.837, 1.0: 0.989}),
}
"""ACR by data set, network and method: only of the network, the objective and the schedule that the recipe has."""
