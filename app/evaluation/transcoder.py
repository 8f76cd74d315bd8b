"""Answers in formats that are converted from another one: collected up to a limit, then written at once."""

from __future__ import annotations

from collections.abc import Callable

from quadrill.store.errors import LimitError

from ..http import negotiation
from .answer import AnswerSink, ByteSink


class Transcoder:
    """A sink that passes on, or for a format that is converted collects what is written at first."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._collected = bytearray()
        self._chosen: negotiation.Offer | None = None

    def begin(self, chosen: negotiation.Offer) -> None:
        """The format is known: from now on that one is written."""
        self._chosen = chosen if chosen.convert is not None else None
        if isinstance(self._sink, AnswerSink):
            self._sink.begin(chosen)

    def write(self, data: bytes) -> int:
        """Pass on or collect."""
        if self._chosen is None:
            return self._sink.write(data)
        self._collected += data
        if len(self._collected) > negotiation.MOST_CONVERTED:
            raise LimitError(
                f"{self._chosen.media_type} is written up to {negotiation.MOST_CONVERTED >> 20} MiB",
                hint="Use a format that is streamed, as N-Quads or JSON.",
            )
        return len(data)

    def flush(self) -> None:
        """Do nothing: no bytes are held back."""

    def finish(self) -> None:
        """Write what was collected."""
        if self._chosen is not None and self._chosen.convert is not None:
            self._sink.write(self._chosen.convert(bytes(self._collected)))


def transcoded(body: Callable[[Transcoder], None]) -> Callable[[ByteSink], None]:
    """A body of an answer whose sink can change the format."""

    def whole(sink: ByteSink) -> None:
        transcoder = Transcoder(sink)
        body(transcoder)
        transcoder.finish()

    return whole
