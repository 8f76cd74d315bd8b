"""What a push asks for, besides the bytes that it brings."""

from __future__ import annotations

from typing import NamedTuple

from .dead_letters import DeadLetter
from .partitions import DIRECT


class PushCall(NamedTuple):
    """One push but for its body.

    Attributes:
        stream: name or IRI; an unknown stream is declared.
        media_type: value of Content-Type, parameters included.
        at: the event time of every element that has none of its own line.
        each: ``triple`` makes one element of each triple.
        partial: accept the good elements and list the bad ones.
        wait: answer once every result that the push causes is in the feeds. ``waited`` in the answer is
            False if that took longer than ``timeout``; the elements are accepted all the same.
        durable: False answers without waiting for the input log; what was answered so can be lost with the
            process. Too much that waits is waited for all the same.
        idempotency_key: the same key and body get the same answer and nothing is accepted twice.
        timeout: seconds to wait for results at most, `WAIT_S` by default.
        position: a source and where it is behind this push, kept with the elements.
        partition: the source's partition that it is of, behind the source's name.
        retried: the dead letter that is pushed, which is one no more.
    """

    stream: str
    media_type: str
    at: int | str | None = None
    each: str | None = None
    partial: bool = False
    wait: bool = False
    durable: bool = True
    idempotency_key: str | None = None
    timeout: float | None = None
    position: tuple[str, str] | None = None
    partition: str = DIRECT
    retried: DeadLetter | None = None

    @property
    def is_quick(self) -> bool:
        """True for a push that waits for nothing but the input log."""
        return self.durable and not self.wait and self.idempotency_key is None
