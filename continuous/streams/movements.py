"""Event time of a stream without new elements: heartbeats, the wall clock and idle time-outs."""

from __future__ import annotations

from collections.abc import Mapping

from quadrill.store.documents.times import format_instant, readable_duration
from quadrill.store.errors import InputError

from ..clock import Clock
from ..durable.tasks import InputTask, TaskQueue
from ..inputs import NEVER, Advance, Idle
from .accept import Acceptor, StreamState
from .partitions import Partitions


def heartbeat(
    acceptor: Acceptor, tasks: TaskQueue, stream: StreamState, at: int, max_future_ms: int, most_queued: int
) -> InputTask:
    """Advance a stream's watermark to `at` without data, and return the enqueued task.

    The caller that moves a stream's event time holds the lock of the input order.

    Raises:
        InputError: the heartbeat is too far in the future.
        BackPressureError: the task queue is full.
    """
    tasks.require_room(1, most_queued)
    now, watermark = tasks.clock.now_ms(), stream.watermark
    reach = max(now, watermark if watermark is not None else now)
    if at > reach + max_future_ms:
        raise InputError(
            f"the heartbeat {format_instant(at)} is more than {readable_duration(max_future_ms)} "
            "ahead of the clock and of its stream's watermark",
            code="future",
        )
    stream.heard(tasks.clock)
    stream.idle, stream.promised = False, at
    stream.guarantee(at)
    task = acceptor.write(stream, Advance(stream.iri, stream.time), now)
    assert task is not None
    return task


def tick(acceptor: Acceptor, tasks: TaskQueue, stream: StreamState, now: int) -> None:
    """Advance a stream's watermark by the wall clock, or mark the stream idle after its idle time-out."""
    with tasks.lock:
        if stream.derived_from is not None:
            return
        reached = _reached(stream, now)
        if reached is not None:
            if stream.guarantee(reached):
                stream.idle = False
                acceptor.write(stream, Advance(stream.iri, stream.time), now)
            return
        left = idle_in(stream, tasks.clock)
        if left is not None and left <= 0:
            if stream.partitions is not None and not _expire(acceptor, tasks.clock, stream):
                return
            stream.idle = True
            # An idle stream waits for no late elements, so its watermark rises to the greatest event time
            # and windows that waited for the lateness are reported.
            if stream.seen is not None and stream.seen != NEVER:
                stream.guarantee(stream.seen)
            acceptor.write(stream, Idle(stream.iri, stream.time), now)


def forget_time(stream: StreamState) -> None:
    """Reset a stream's event time to that of a new stream, and evict its retained inputs."""
    stream.seen = stream.floor = stream.promised = stream.partitions = None
    stream.idle = False
    stream.retained.clear()


def ahead_ms(stream: StreamState, now_ms: int) -> int:
    """Return the milliseconds by which an arrival-stamped stream is ahead of the wall clock, else 0.

    After the wall clock was set back, the stream's event time does not advance until the clock reaches the
    stream's event time.
    """
    watermark = stream.watermark
    if watermark is None or stream.record.stamping != "arrival" or stream.derived_from is not None:
        return 0
    return max(0, watermark + stream.lateness_ms - now_ms)


def idle_in(stream: StreamState, clock: Clock) -> int | None:
    """Return the milliseconds until a silent stream becomes idle; 0 or less if due, None if it never will."""
    heard = stream.last_input_steady
    if stream.idle or not stream.idle_timeout_ms or _goes_on(stream):
        return None
    if stream.partitions is not None:
        heard = stream.partitions.silent_since()
    if heard is None:
        return None
    return heard + stream.idle_timeout_ms - clock.steady_ms()


def declare_partitions(
    acceptor: Acceptor, clock: Clock, stream: StreamState, source: str, waiting: Mapping[str, bool]
) -> None:
    """Set the partitions of one source of a stream; the caller holds the lock of the input order.

    A source with a single partition is ignored if the stream has no partitions yet, because the records of
    one partition arrive in order. ``waiting`` maps each partition to True if the partition has unread
    records.
    """
    known = stream.partitions
    if stream.record.stamping == "arrival" or (known is None and len(waiting) < 2):
        return
    if known is None:
        known = stream.partitions = Partitions(stream.seen)
    named = {f"{source}/{name}": unread for name, unread in waiting.items()}
    if known.declare(f"{source}/", named, clock.steady_ms()):
        before = stream.seen
        if known.newest is not None:
            stream.seen = known.seen(before)
        _tell_moved(acceptor, clock, stream, before)


def _tell_moved(acceptor: Acceptor, clock: Clock, stream: StreamState, before: int | None) -> None:
    """Journal a change of a stream's partitions; enqueue an input if the stream's event time moves."""
    if stream.seen != before:
        acceptor.write(stream, Advance(stream.iri, stream.time), clock.now_ms())
    else:
        acceptor.write(stream, None, clock.now_ms())


def _expire(acceptor: Acceptor, clock: Clock, stream: StreamState) -> bool:
    """Mark silent partitions idle and advance the stream's event time; return True if all are idle."""
    partitions, before = stream.partitions, stream.seen
    assert partitions is not None
    every = partitions.expire(clock.steady_ms() - stream.idle_timeout_ms)
    if before is not None or partitions.newest is not None:
        stream.seen = partitions.seen(before)
    if every:
        return True
    _tell_moved(acceptor, clock, stream, before)
    return False


def ticks_at(stream: StreamState, instant: int) -> int | None:
    """Return the time at which the wall clock raises a stream's watermark to `instant`, or None."""
    if stream.record.stamping == "arrival":
        return instant + stream.lateness_ms
    first = (stream.last_input_ms or 0) + stream.idle_timeout_ms
    reached = _reached(stream, first)
    return None if reached is None else first + max(0, instant - reached)


def begin_again(stream: StreamState, clock: Clock) -> None:
    """Restart the idle time-out of a stream after a restart of the server.

    For a stream with ``clock: wall-when-idle`` event time continues by the wall clock from the last input.
    """
    if stream.last_input_ms is None:
        return
    if _goes_on(stream):
        stream.promised = _stood(stream) + max(0, clock.now_ms() - stream.last_input_ms)
    stream.heard(clock)
    if stream.partitions is not None:
        stream.partitions.begin_again(clock.steady_ms())


def _reached(stream: StreamState, now: int) -> int | None:
    """Return the watermark that the wall clock gives a stream at ``now``; None if the clock has no effect."""
    if stream.record.stamping == "arrival":
        return now - stream.lateness_ms
    last, timeout = stream.last_input_ms, stream.idle_timeout_ms
    if not _goes_on(stream) or last is None or not timeout or now - last < timeout:
        return None
    return _stood(stream) + now - last


def _goes_on(stream: StreamState) -> bool:
    return stream.record.clock == "wall-when-idle" and stream.record.stamping != "arrival"


def _stood(stream: StreamState) -> int:
    """Return the watermark that a stream's elements and last heartbeat give, without the wall clock."""
    moved = NEVER if stream.seen is None else stream.seen - stream.lateness_ms
    return moved if stream.promised is None else max(moved, stream.promised)
