"""The options of a procedure that certifies, for the commands that do."""

from __future__ import annotations

from typing import Annotated

from smoothcert.cli.options import PROCEDURE, option

Name = Annotated[
    str,
    option(
        "fixed: the largest radius, n draws. sequential: given radii, as few draws as possible. "
        "staged: CertifyAdp. budgeted: the largest radius, draws where they pay. "
        "evaluate: fixed for test data, without draws for wrong answers.",
        panel=PROCEDURE,
    ),
]
Radius = Annotated[list[float], option("Radius to certify; several for sequential: 0.25 0.5 1.", panel=PROCEDURE)]
N = Annotated[
    int | None, option("Draws that bound the probability, or fixed n to match. Default: 100000.", panel=PROCEDURE)
]
N0 = Annotated[int | None, option("Draws that choose the class. Default: 100.", panel=PROCEDURE)]
Beta = Annotated[
    float | None, option("Power that giving up early may cost (sequential, staged). Default: 0.001.", panel=PROCEDURE)
]
Stages = Annotated[str | None, option("Of staged, as in 100,1000,10000,120000. Default: from n.", panel=PROCEDURE)]
Price = Annotated[float | None, option("Of draws, for budgeted: see Budgeted.", panel=PROCEDURE)]
BoundName = Annotated[
    str | None, option("Of fixed: clopper-pearson (votes), hoeffding, bernstein (soft scores).", panel=PROCEDURE)
]
Temperature = Annotated[float | None, option("Of the softmax, for soft bounds.", panel=PROCEDURE)]
RunnerUp = Annotated[
    bool, option("Of fixed: bound the runner-up too; certifies p_A < 1/2.", "--runner-up", panel=PROCEDURE)
]
