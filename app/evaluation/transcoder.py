"""Answers in formats that Oxigraph does not write: collected up to a size limit, then converted at once."""

from __future__ import annotations

from collections.abc import Callable

from quadrill.store.errors import LimitError

from ..http import negotiation
from .answer import AnswerSink, ByteSink


class Transcoder:
    """A sink that forwards the blocks of an answer, or collects the blocks for a conversion at the end."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._collected = bytearray()
        self._chosen: negotiation.Offer | None = None

    def begin(self, chosen: negotiation.Offer) -> None:
        """Set the format of the answer; if it needs a conversion, the answer's blocks are collected."""
        self._chosen = chosen if chosen.convert is not None else None
        if isinstance(self._sink, AnswerSink):
            self._sink.begin(chosen)

    def write(self, data: bytes) -> int:
        """Forward one block of the answer, or collect the block for a conversion."""
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
        """Do nothing when a serialiser flushes; blocks are forwarded at once, or written by `finish`."""

    def finish(self) -> None:
        """Convert the collected bytes of the answer and write the result to the sink."""
        if self._chosen is not None and self._chosen.convert is not None:
            self._sink.write(self._chosen.convert(bytes(self._collected)))


def transcoded(body: Callable[[Transcoder], None]) -> Callable[[ByteSink], None]:
    """Wrap the function that writes an answer's body, so that the body's format can be converted."""

    def whole(sink: ByteSink) -> None:
        transcoder = Transcoder(sink)
        body(transcoder)
        transcoder.finish()

    return whole
