"""One step of a diffusion model before a classifier."""

import math

import pytest
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.core.errors import InputError
from smoothcert.models.diffusion import DiffusionDenoiser

SIGMAS = (0.12, 0.25, 0.5, 1.0)


def steps(count: int = 1000) -> Tensor:
    """The linear schedule of Ho et al. 2020."""
    return torch.cumprod(1 - torch.linspace(1e-4, 0.02, count, dtype=torch.float64), 0)


class Perfect(nn.Module):
    """Knows the clean image, and so the noise."""

    def __init__(self, clean: Tensor, schedule: Tensor) -> None:
        super().__init__()
        self.clean, self.schedule = clean, schedule

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        a = self.schedule[t].float().view(-1, 1, 1, 1)
        noise = (x - a.sqrt() * self.clean) / (1 - a).sqrt()
        return torch.cat([noise, torch.zeros_like(noise)], dim=1)  # a variance that is not asked for


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_step_has_the_noise_of_the_image(sigma: float) -> None:
    denoiser = DiffusionDenoiser(nn.Identity(), steps(), sigma)
    a = denoiser.alpha
    assert math.sqrt((1 - a) / a) == pytest.approx(2 * sigma, rel=0.02)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_perfect_prediction_gives_the_clean_image(sigma: float) -> None:
    clean = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    noisy = clean + sigma * torch.randn(clean.shape, generator=torch.Generator().manual_seed(1))
    found = DiffusionDenoiser(Perfect(2 * clean - 1, steps()), steps(), sigma)(noisy)
    torch.testing.assert_close(found, clean, atol=1e-4, rtol=0)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_it_is_what_diffusers_own_scheduler_computes(prediction: str) -> None:
    diffusers = pytest.importorskip(
        "diffusers", reason="diffusers is not installed: pip install 'smoothcert[diffusion]'"
    )
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, block_out_channels=(8, 16), norm_num_groups=4,
        layers_per_block=1, down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    ).eval()  # fmt: skip
    scheduler = diffusers.DDPMScheduler(prediction_type=prediction, clip_sample=True)
    denoiser = DiffusionDenoiser.from_diffusers(unet, scheduler, 0.25)
    x = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        noisy = math.sqrt(denoiser.alpha) * (2 * x - 1)
        answer = unet(noisy, torch.tensor(denoiser.step)).sample
        wanted = scheduler.step(answer, denoiser.step, noisy).pred_original_sample
        torch.testing.assert_close(denoiser(x), (wanted + 1) / 2, atol=1e-5, rtol=1e-4)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(768, 3))
    smoothed = sc.Smoothed(sc.Denoised(denoiser, classifier), num_classes=3, noise=sc.Gaussian(0.25, grid=1 / 255))
    (certificate,) = smoothed.certify(torch.round(x[:1] * 255) / 255, sc.Fixed(n=50, n0=10))
    assert sum(sum(tally.votes) for _, tally in certificate.answers) == 60


def test_what_cannot_be_is_one_sentence() -> None:
    for arguments, words in (
        ((nn.Identity(), [0.5], 0.25), "between 0 and 1, one for each step"),
        ((nn.Identity(), [0.5, 1.5], 0.25), "between 0 and 1"),
        ((nn.Identity(), steps(), 1000.0), "sigma must be at most"),
        ((nn.Identity(), steps(), 0.0), "sigma must be a positive number"),
    ):
        with pytest.raises(InputError, match=words):
            DiffusionDenoiser(*arguments)
    with pytest.raises(InputError, match="prediction must be one of"):
        DiffusionDenoiser(nn.Identity(), steps(), 0.25, prediction="noise")
    with pytest.raises(InputError, match="scheduler must have alphas_cumprod"):
        DiffusionDenoiser.from_diffusers(nn.Identity(), object(), 0.25)
