"""Receipts of pushes; the receipts of pushes with an idempotency key are stored."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import IdempotencyError
from .decode import BadElement


class PushReceipt(NamedTuple):
    """The response to a push: numbers of its first and last element, and counts.

    The count ``accepted`` includes the ``late`` elements, of which ``dropped`` did not enter the stream.
    The count ``skipped`` is the number of records that gave no triple; None for a push without records.
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
        """Return the receipt's fields as a list, to be written into a journal record."""
        # The texts of records are left out, because they are stored as dead letters.
        bad = None
        if self.bad is not None:
            bad = [[*each[:4], None, True] if each.early else list(each[:4]) for each in self.bad]
        return [*self[:6], bad, self.dropped, self.skipped]


class Receipts:
    """The newest receipts of pushes with an idempotency key.

    The receipts are guarded by the lock of the input order.
    """

    def __init__(self, capacity: int) -> None:
        self._most = capacity
        self._receipts: OrderedDict[tuple[str, str], tuple[str, PushReceipt]] = OrderedDict()
        # The position of each source (connector) at its last push, by stream and source name; never evicted.
        self.positions: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._receipts)

    def find(self, stream: str, key: str, fingerprint: str) -> PushReceipt | None:
        """Return the receipt of an earlier push with this idempotency key; None if there is none.

        Raises:
            IdempotencyError: the earlier push had another body, media type or options.
        """
        known, receipt = self._receipts.get((stream, key), (fingerprint, None))
        if known != fingerprint:
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used with another body")
        return receipt

    def add(self, stream: str, key: str, fingerprint: str, receipt: PushReceipt) -> None:
        """Store the receipt of a push, and evict the oldest receipt beyond the capacity."""
        self._receipts[stream, key] = (fingerprint, receipt)
        if len(self._receipts) > self._most:
            self._receipts.popitem(last=False)

    def forget(self, stream: str) -> None:
        """Delete the receipts and source positions of a dropped stream, whose IRI a new stream may take."""
        for stream_key in [stream_key for stream_key in self._receipts if stream_key[0] == stream]:
            del self._receipts[stream_key]
        for place in [place for place in self.positions if place[0] == stream]:
            del self.positions[place]

    def checkpoint_rows(self) -> list[tuple[str, str, str, list[Any] | None]]:
        """Return the receipts and source positions as rows for a checkpoint; see `restore`."""
        receipts = [
            (*key, fingerprint, receipt.members()) for key, (fingerprint, receipt) in self._receipts.items()
        ]
        return [*receipts, *((*place, position, None) for place, position in self.positions.items())]

    def restore(self, stream: str, key: str, fingerprint: str, members: Sequence[Any] | None = None) -> None:
        """Restore a push's receipt, or the position of a source; an empty position removes the stored one."""
        if members is None:
            self.positions[stream, key] = fingerprint
            if not fingerprint:
                del self.positions[stream, key]
            return
        receipt = PushReceipt(*members)
        if receipt.bad is not None:
            receipt = receipt._replace(bad=tuple(BadElement(*element) for element in receipt.bad))
        self.add(stream, key, fingerprint, receipt)


def fingerprint_of(body: bytes, media_type: str, **options: Any) -> str:
    """Return a digest of a push's body, media type and options."""
    digest = hashlib.sha256(body)
    digest.update(json.dumps([media_type, options], sort_keys=True, default=str).encode())
    return digest.hexdigest()
