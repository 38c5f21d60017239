"""Why a question is not answered now: by no fault of the question itself."""

from __future__ import annotations


class TurnedAwayError(Exception):
    """Not now: there is too much to do, or the client has asked for too much. Come back after some seconds."""

    def __init__(self, sentence: str, *, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class ClosingError(Exception):
    """The server is about to end, and takes no further question."""


class AnswerError(Exception):
    """The question was taken, and could not be answered: the model failed, or the disk, or the memory."""
