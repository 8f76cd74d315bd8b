"""Checks of the event times of a push: missing times, times too far in the future, late elements."""

from __future__ import annotations

from ..documents.times import format_instant, readable_duration
from ..errors import InputError, LateElementError
from ..pushes.decode import (
    PROV_GENERATED_AT_TIME,
    BadElement,
    DecodedElement,
    DecodedPush,
    EarlyElement,
)
from .records import StreamRecord


def check_elements(
    decoded: DecodedPush,
    record: StreamRecord,
    lateness_ms: int,
    watermark: int | None,
    now: int,
    arrival: int,
    max_future_ms: int,
    partial: bool,
) -> tuple[list[DecodedElement], list[int], list[BadElement], list[EarlyElement]]:
    """Return the elements that may enter the stream, their event times, the bad and the early elements.

    An early element is also among the bad ones. A pushed element without a time gets the time ``arrival``.
    All event times are milliseconds since 1970.

    Raises:
        InputError: the push is not ``partial``, and the time of an element is missing, forbidden, too far in
            the future, or late on a stream that refuses late elements.
    """
    stamping = record.stamping
    # Times too far in the future are found in the order of event times, because each element may advance the
    # watermark for the next.
    reach = max(now, watermark if watermark is not None else now)
    ahead: dict[int, bool] = {}
    for at in sorted({e.at for e in decoded.elements if e.at is not None}):
        ahead[at] = at > reach + max_future_ms
        if not ahead[at]:
            reach = max(reach, at - lateness_ms)
    good: list[DecodedElement] = []
    times: list[int] = []
    bad = list(decoded.bad)
    early: list[EarlyElement] = []
    for element in decoded.elements:
        element_stamping = "arrival" if element.at is None else "event"
        try:
            if stamping is not None and element_stamping != stamping:
                raise _wrong_stamp(record, element)
            if element.at is not None and ahead[element.at]:
                raise InputError(
                    f"{element.place}: its time {format_instant(element.at)} is more than "
                    f"{readable_duration(max_future_ms)} ahead of the clock and of its stream's watermark",
                    hint="Check the sender's clock; one bad clock would make everything else late",
                    code="future",
                    line=element.line,
                )
            at = arrival if element.at is None else element.at
            if watermark is not None and at < watermark and record.late == "error":
                raise LateElementError(
                    f"{element.place}: its time {format_instant(at)} is behind the watermark "
                    f"{format_instant(watermark)} of stream {record.name}, which refuses late elements",
                    line=element.line,
                )
        except InputError as error:
            if not partial:
                raise
            source, is_early = decoded.records.pop(element.place, None), error.code == "future"
            # An early element is stored as an element, so the text of its record is not needed.
            text = None if is_early else source and source.excerpt()
            bad.append(BadElement(element.place, error.message, element.line, None, text, is_early))
            if is_early:
                early.append(EarlyElement(element, error.message))
            continue
        stamping = stamping or element_stamping  # type: ignore[assignment]  # own is one of the two words
        good.append(element)
        times.append(at)
    # Malformed elements were listed first: sorting by line number restores the order of the document.
    bad.sort(key=lambda element: element.line or 0)
    return good, times, bad, early


def _wrong_stamp(record: StreamRecord, element: DecodedElement) -> InputError:
    if element.at is None:
        timestamps = record.timestamp_property or PROV_GENERATED_AT_TIME
        return InputError(
            f"{element.place} has no time and stream {record.name} is event-stamped",
            hint=f'Give it with "at", with ?at= (push --at) or with the property {timestamps}',
            code="no-time",
            line=element.line,
        )
    return InputError(
        f"{element.place} has a time and stream {record.name} is stamped at arrival",
        hint="Leave the time out, or use another stream",
        code="has-time",
        line=element.line,
    )
