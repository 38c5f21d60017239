"""Your own PyTorch model, certified: python examples/resnet20.py"""

import torch

import smoothcert as sc

# Any callable from (B, 3, 32, 32) to (B, 10) will do. Noise is added to raw pixels, so normalisation is a layer.
spec = sc.architectures.Architecture("cifar-resnet20", 10, (3, 32, 32), mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26))
model = sc.models.build(spec, seed=0)  # untrained here: load yours
g = sc.Smoothed(model, num_classes=10, noise=sc.Gaussian(sigma=0.25), input_range=(0, 1))
x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
for certificate in g.certify(x, sc.Fixed(n0=100, n=1_000, alpha=0.001)):
    print(certificate)
