"""Numbers for Prometheus, under the names that servers have in common; what is ours begins with smoothcert_."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
DRAWS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
FILLS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
RADII = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)


class Metrics:
    """Of one server; several in one process do not mix."""

    def __init__(self) -> None:
        here = self._registry = CollectorRegistry()
        ProcessCollector(registry=here)
        self.requests = Counter("http_requests", "Requests.", ("method", "path", "status"), registry=here)
        self.latency = Histogram(
            "http_request_duration_seconds", "Time to the end of the answer.", ("path",), buckets=SECONDS, registry=here
        )
        self.in_progress = Gauge("http_requests_in_progress", "Requests under way.", registry=here)
        self.answers = Counter(
            "smoothcert_answers",
            "Answers: certified, abstained, repeated (from the run), late (deadline), left (client gone), failed.",
            ("outcome",),
            registry=here,
        )
        self.draws = Counter(
            "smoothcert_draws", "Noisy copies that went through the model, those made ahead included.", registry=here
        )
        self.batch_fill = Histogram(
            "smoothcert_batch_fill", "Rows of a batch, as a share of its room.", buckets=FILLS, registry=here
        )
        self.draws_per_answer = Histogram(
            "smoothcert_draws_per_answer", "Draws behind a new answer.", buckets=DRAWS, registry=here
        )
        self.radius = Histogram("smoothcert_radius", "Certified radii of new answers.", buckets=RADII, registry=here)
        self.seconds = Histogram(
            "smoothcert_answer_seconds", "From the question to the answer on disk.", buckets=SECONDS, registry=here
        )
        self.keys = Counter("smoothcert_keys", "Secret keys that were taken into use.", registry=here)
        self.queue = Gauge("smoothcert_queue_length", "Questions under way or waiting.", registry=here)
        self.certified = Gauge("smoothcert_certified_share", "Share of new answers that certify.", registry=here)
        self._decided = self._shown = 0

    def watch_queue(self, length: Callable[[], float]) -> None:
        """What is looked up whenever somebody asks."""
        self.queue.set_function(length)

    def batch(self, rows: int, room: int) -> None:
        """A batch was handed out."""
        self.draws.inc(rows)
        self.batch_fill.observe(rows / room)

    def answered(self, *, certified: bool, radius: float, draws: int, seconds: float) -> None:
        """A new answer was given."""
        self.answers.labels("certified" if certified else "abstained").inc()
        self._decided, self._shown = self._decided + 1, self._shown + certified
        self.certified.set(self._shown / self._decided)
        self.draws_per_answer.observe(draws)
        self.seconds.observe(seconds)
        if certified:
            self.radius.observe(radius)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return bytes(generate_latest(self._registry))
