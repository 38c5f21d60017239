"""A request waits: for its answers, for its deadline, or until its client has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import Request
from torch import Tensor

from smoothcert.core.errors import InputError
from smoothcert.procedures import Procedure
from smoothcert.service.answer import Answer
from smoothcert.service.answering import Service, Ticket, Votes
from smoothcert.service.errors import AnswerError
from smoothcert.service.http.parameters import Parameters

BODY_SECONDS = 30  # in which a request must have been sent


class TooLargeError(Exception):
    """The body of a request has more bytes than are read."""


class TooSlowError(Exception):
    """The body of a request did not come in time."""


class ClientLeftError(Exception):
    """Nobody is there any more to be answered."""


async def read_body(request: Request, most: int) -> bytes:
    """The whole body, if it is small enough and comes in time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    raise TooLargeError(f"the body has more than {most} bytes, which is all that is read; send less")
    except TimeoutError:
        raise TooSlowError(f"the body did not come within {BODY_SECONDS} s; send it again") from None
    return b"".join(parts)


class Asker:
    """Asks a service for requests. Procedures are prepared by threads of its own: that may take a second."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.threads = ThreadPoolExecutor(2, "smoothcert-prepare")

    async def prepared(self, parameters: Parameters) -> tuple[Procedure, float]:
        """The procedure of a request, ready to be asked, and its deadline in seconds."""
        procedure = parameters.applied(self.service.procedure)
        await asyncio.get_running_loop().run_in_executor(self.threads, self.service.prepare, procedure)
        most = self.service.limits.deadline
        return procedure, min(most, parameters.deadline or most)

    async def answers(
        self, request: Request, inputs: Sequence[Tensor], parameters: Parameters, client: str
    ) -> list[Answer]:
        """One answer per input; those that are not decided in time abstain. Whoever leaves is asked for no more."""
        procedure, deadline = await self.prepared(parameters)
        tickets: list[Ticket] = []
        gone = asyncio.ensure_future(_gone(request))
        try:
            for x in inputs:
                tickets.append(self.service.ask(x, procedure, client=client))
            futures = [asyncio.wrap_future(ticket.future) for ticket in tickets]
            everything = asyncio.ensure_future(asyncio.wait(futures))
            both: set[asyncio.Future[Any]] = {everything, gone}
            await asyncio.wait(both, timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
            everything.cancel()
            if gone.done() and not all(future.done() for future in futures):
                raise ClientLeftError
            pairs = zip(tickets, futures, strict=True)
            return [
                _result(future) if future.done() else self.service.late(ticket, procedure, deadline)
                for ticket, future in pairs
            ]
        finally:
            gone.cancel()
            for ticket in tickets:
                ticket.leave()

    async def events(self, x: Tensor, parameters: Parameters, client: str) -> AsyncGenerator[Votes | Answer]:
        """Votes as they grow, and the answer at last."""
        procedure, deadline = await self.prepared(parameters)
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[Votes] = asyncio.Queue()
        ticket = self.service.ask(x, procedure, client=client)
        answered = asyncio.wrap_future(ticket.future)

        def hear(votes: Votes) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, votes)

        ticket.on_votes = hear
        end = loop.time() + deadline
        try:
            while not answered.done() and loop.time() < end:
                news = asyncio.ensure_future(heard.get())
                both: set[asyncio.Future[Any]] = {news, answered}
                # No timeout around it: whoever iterates may be another task each time.
                await asyncio.wait(both, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
                if news.done():
                    yield news.result()
                else:
                    news.cancel()
            while not heard.empty():  # votes came before the answer, and may have been passed by it here
                yield heard.get_nowait()
            yield _result(answered) if answered.done() else self.service.late(ticket, procedure, deadline)
        finally:
            ticket.leave()


def _result(future: asyncio.Future[Answer]) -> Answer:
    error = future.exception()
    if error is None:
        return future.result()
    said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}"
    raise AnswerError(f"the question could not be answered: {said}") from error


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
