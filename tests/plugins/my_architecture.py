"""A perceptron with one hidden layer, for tiny images."""

from torch import Tensor, nn

import smoothcert as sc


@sc.architectures.register("perceptron")
class Perceptron(nn.Module):
    """Flat pixels, 32 hidden units, scores."""

    def __init__(self, *, num_classes: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(channels * height * width, 32), nn.ReLU(), nn.Linear(32, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores `(B, num_classes)` of images `(B, C, H, W)`."""
        scores: Tensor = self.layers(x)
        return scores
