"""A scikit-learn classifier on tabular data, certified: python examples/sklearn_table.py"""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

import smoothcert as sc

x, y = load_breast_cancer(return_X_y=True)
x = StandardScaler().fit_transform(x).astype("float32")
forest = sc.SklearnClassifier(RandomForestClassifier(50, random_state=0).fit(x[:469], y[:469]))
g = sc.Smoothed(forest, num_classes=2, noise=sc.Gaussian(sigma=0.5))
certificates = g.certify(torch.from_numpy(x[469:479]), sc.Fixed(n=1_000, alpha=0.001))
for truth, certificate in zip(y[469:479], certificates, strict=True):
    print(f"truth {truth} | {certificate}")
