"""Answers in converted formats, which are collected up to a size limit and then written at once."""

from __future__ import annotations

from collections.abc import Callable

from quadrill.store.errors import LimitError

from ..http import negotiation
from .answer import AnswerSink, ByteSink


class Transcoder:
    """A sink that forwards the blocks of an answer, or collects them for a conversion at the end."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._collected = bytearray()
        self._chosen: negotiation.Offer | None = None

    def begin(self, chosen: negotiation.Offer) -> None:
        """Set the format of the answer; blocks are collected if the format needs a conversion."""
        self._chosen = chosen if chosen.convert is not None else None
        if isinstance(self._sink, AnswerSink):
            self._sink.begin(chosen)

    def write(self, data: bytes) -> int:
        """Forward one block, or collect the block for a conversion."""
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
        """Do nothing: the sink forwards blocks at once, and `finish` writes the collected bytes."""

    def finish(self) -> None:
        """Convert the collected bytes and write the result."""
        if self._chosen is not None and self._chosen.convert is not None:
            self._sink.write(self._chosen.convert(bytes(self._collected)))


def transcoded(body: Callable[[Transcoder], None]) -> Callable[[ByteSink], None]:
    """Wrap the function that writes a body, so that its sink can convert the format."""

    def whole(sink: ByteSink) -> None:
        transcoder = Transcoder(sink)
        body(transcoder)
        transcoder.finish()

    return whole
