"""Receipts of pushes, and those that are remembered by Idempotency-Key."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import IdempotencyError
from .decode import BadElement


@dataclass(frozen=True, slots=True)
class PushReceipt:
    """What a push is answered with. ``accepted`` counts late elements, too; ``late`` says how many."""

    stream: str
    first_seq: int | None
    last_seq: int | None
    accepted: int
    late: int
    durable: bool
    bad: tuple[BadElement, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON answer; ``bad`` only for a partial push."""
        document: dict[str, Any] = {
            "stream": self.stream,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "accepted": self.accepted,
            "late": self.late,
            "durable": self.durable,
        }
        if self.bad is not None:
            document["bad"] = [element.to_json() for element in self.bad]
        return document


class Receipts:
    """The receipts of pushes with a key, a bounded number of them. Guarded by the lock of the order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[str, PushReceipt]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, stream: str, key: str, fingerprint: str) -> PushReceipt | None:
        """The receipt of an earlier push with this key.

        Raises:
            IdempotencyError: that push had another body.
        """
        found = self._kept.get((stream, key))
        if found is None:
            return None
        if found[0] != fingerprint:
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used with another body")
        return found[1]

    def keep(self, stream: str, key: str, fingerprint: str, receipt: PushReceipt) -> None:
        """Remember the receipt of a push."""
        self._kept[(stream, key)] = (fingerprint, receipt)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, stream: str) -> None:
        """A stream was dropped: what is pushed under its IRI from now on is for another one."""
        for each in [each for each in self._kept if each[0] == stream]:
            del self._kept[each]

    def figures(self) -> list[tuple[str, str, str, list[Any]]]:
        """For a checkpoint: (stream, key, fingerprint, members of the receipt)."""
        return [
            (stream, key, fingerprint, receipt_members(receipt))
            for (stream, key), (fingerprint, receipt) in self._kept.items()
        ]

    def restore(self, figures: Sequence[Sequence[Any]]) -> None:
        """The receipts of `figures` again."""
        for stream, key, fingerprint, members in figures:
            self.keep(stream, key, fingerprint, receipt_of(members))


def receipt_members(receipt: PushReceipt) -> list[Any]:
    """A receipt for a record."""
    bad = receipt.bad
    return [
        receipt.stream, receipt.first_seq, receipt.last_seq, receipt.accepted, receipt.late, receipt.durable,
        None if bad is None else [[each.place, each.error, each.line, each.column] for each in bad],
    ]  # fmt: skip


def receipt_of(members: Sequence[Any]) -> PushReceipt:
    """The receipt that `figures` of a checkpoint holds."""
    stream, first, last, accepted, late, durable, bad = members
    refused = None if bad is None else tuple(BadElement(*each) for each in bad)
    return PushReceipt(stream, first, last, accepted, late, durable, refused)


def fingerprint_of(body: bytes, media_type: str, **options: Any) -> str:
    """A digest of a push: body, type and options."""
    digest = hashlib.sha256(body)
    digest.update(json.dumps([media_type, options], sort_keys=True, default=str).encode())
    return digest.hexdigest()
