"""The options of one push request, without the body."""

from __future__ import annotations

from typing import NamedTuple

from .dead_letters import DeadLetter
from .partitions import DIRECT


class PushCall(NamedTuple):
    """The options of one push request, without the body.

    Attributes:
        stream: name or IRI of the stream; an unknown stream is declared.
        media_type: value of the Content-Type header, parameters included.
        at: the event time of every element whose line has no event time.
        each: ``triple`` makes one element of each triple.
        partial: accept the good elements and list the bad ones.
        wait: True to answer once every result that the push causes is in the feeds. ``waited`` in the answer
            of a push is False if its results took longer than ``timeout``; the elements are accepted
            nevertheless.
        durable: if False, answer before the journal has synced the push, which a crash can then lose. A push
            that is not durable still waits for the sync while too many unsynced records are queued.
        idempotency_key: pushes with the same key and body get the same answer and are accepted only once.
        timeout: maximum seconds to wait for results, `WAIT_S` by default.
        position: a source and the source's position after this push, stored together with the elements.
        partition: the partition of a source that the push comes from, after the source's name.
        retried: the dead letter that the push retries; the letter is removed.
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
        """True for a push on the fast path, which waits for the journal's sync and for nothing else."""
        return self.durable and not self.wait and self.idempotency_key is None
