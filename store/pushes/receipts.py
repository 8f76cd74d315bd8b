"""The answers to pushes, of which those with an idempotency key are remembered."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import IdempotencyError
from .decode import BadElement


class PushReceipt(NamedTuple):
    """What a push is answered with.

    ``accepted`` counts late elements, too: ``late`` says how many, ``dropped`` how many did not enter.
    ``skipped`` are the records that gave no triple, where it was records that were pushed.
    """

    stream: str
    first_seq: int | None
    last_seq: int | None
    accepted: int
    late: int
    durable: bool
    bad: tuple[BadElement, ...] | None = None
    dropped: int = 0
    skipped: int | None = None

    def members(self) -> list[Any]:
        """The receipt for a record."""
        bad = None if self.bad is None else [list(each[:4]) for each in self.bad]
        return [*self[:6], bad, self.dropped, self.skipped]


class Receipts:
    """The receipts of pushes with a key, a bounded number of them. Guarded by the lock of the order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[str, PushReceipt]] = OrderedDict()
        # Of sources, by stream and name: where each was at its last push. They are few and stay.
        self.positions: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, stream: str, key: str, fingerprint: str) -> PushReceipt | None:
        """The receipt of an earlier push with this key.

        Raises:
            IdempotencyError: that push had another body.
        """
        known, receipt = self._kept.get((stream, key), (fingerprint, None))
        if known != fingerprint:
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used with another body")
        return receipt

    def keep(self, stream: str, key: str, fingerprint: str, receipt: PushReceipt) -> None:
        """Remember the receipt of a push."""
        self._kept[stream, key] = (fingerprint, receipt)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, stream: str) -> None:
        """A stream was dropped: what is pushed under its IRI from now on is for another one."""
        for each in [each for each in self._kept if each[0] == stream]:
            del self._kept[each]
        for place in [place for place in self.positions if place[0] == stream]:
            del self.positions[place]

    def figures(self) -> list[tuple[str, str, str, list[Any] | None]]:
        """For a checkpoint: (stream, key, fingerprint, members of the receipt), without those a position."""
        kept = [(*key, fingerprint, receipt.members()) for key, (fingerprint, receipt) in self._kept.items()]
        return [*kept, *((*place, position, None) for place, position in self.positions.items())]

    def restore(self, stream: str, key: str, fingerprint: str, members: Sequence[Any] | None = None) -> None:
        """A receipt of `figures` or of a record again, or the position of a source; an empty one is none."""
        if members is None:
            self.positions[stream, key] = fingerprint
            if not fingerprint:
                del self.positions[stream, key]
            return
        receipt = PushReceipt(*members)
        if receipt.bad is not None:
            receipt = receipt._replace(bad=tuple(BadElement(*each) for each in receipt.bad))
        self.keep(stream, key, fingerprint, receipt)


def fingerprint_of(body: bytes, media_type: str, **options: Any) -> str:
    """A digest of a push: body, type and options."""
    digest = hashlib.sha256(body)
    digest.update(json.dumps([media_type, options], sort_keys=True, default=str).encode())
    return digest.hexdigest()
