"""Streams whose time moves without elements: by heartbeats, by the wall clock, by silence."""

from __future__ import annotations

from collections.abc import Mapping

from quadrill.store.documents.times import format_instant
from quadrill.store.errors import InputError

from ..clock import Clock
from ..durable.tasks import InputTask, TaskQueue
from ..inputs import NEVER, Advance, Idle
from .accept import Acceptor, StreamState
from .partitions import Partitions


def heartbeat(
    acceptor: Acceptor, tasks: TaskQueue, stream: StreamState, at: int, max_future_ms: int, most_queued: int
) -> InputTask:
    """Move a stream's watermark without data, called under the lock; the turn.

    Raises:
        InputError: too far in the future.
        BackPressureError: the queue is full.
    """
    tasks.require_room(1, most_queued)
    now, watermark = tasks.clock.now_ms(), stream.watermark
    reach = max(now, watermark if watermark is not None else now)
    if at > reach + max_future_ms:
        raise InputError(
            f"the heartbeat {format_instant(at)} is more than {max_future_ms} ms "
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
    """The wall clock moves a stream, or marks it idle."""
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
            # Nothing is waited for any more: what was held back by lateness can go.
            if stream.seen is not None and stream.seen != NEVER:
                stream.guarantee(stream.seen)
            acceptor.write(stream, Idle(stream.iri, stream.time), now)


def forget_time(stream: StreamState) -> None:
    """Let a stream begin without any time, as a new one does; what it retains is of the time before."""
    stream.seen = stream.floor = stream.promised = stream.partitions = None
    stream.idle = False
    stream.retained.clear()


def ahead_ms(stream: StreamState, now_ms: int) -> int:
    """Milliseconds by which a stream that is stamped at arrival is ahead of the wall clock, else 0.

    It stands still until the clock, which somebody has set back, is there again.
    """
    watermark = stream.watermark
    if watermark is None or stream.record.stamping != "arrival" or stream.derived_from is not None:
        return 0
    return max(0, watermark + stream.lateness_ms - now_ms)


def idle_in(stream: StreamState, clock: Clock) -> int | None:
    """Milliseconds until silence makes a stream idle, at most 0 when it does; None when it never will."""
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
    """Take the partitions of a source, True for those with unread records, called under the lock.

    Those of a single one count only where the stream has partitions already: its own order is enough.
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
    """Note how partitions have changed; where that moves the stream it is an input."""
    if stream.seen != before:
        acceptor.write(stream, Advance(stream.iri, stream.time), clock.now_ms())
    else:
        acceptor.write(stream, None, clock.now_ms())


def _expire(acceptor: Acceptor, clock: Clock, stream: StreamState) -> bool:
    """Mark silent partitions idle; return True when all are, else the others move the stream."""
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
    """When the wall clock brings a stream's watermark to an instant; None where it does not move it."""
    if stream.record.stamping == "arrival":
        return instant + stream.lateness_ms
    first = (stream.last_input_ms or 0) + stream.idle_timeout_ms
    reached = _reached(stream, first)
    return None if reached is None else first + max(0, instant - reached)


def begin_again(stream: StreamState, clock: Clock) -> None:
    """After a restart silence counts anew, time that goes on by the wall clock from where it is."""
    if stream.last_input_ms is None:
        return
    if _goes_on(stream):
        stream.promised = _stood(stream) + max(0, clock.now_ms() - stream.last_input_ms)
    stream.heard(clock)
    if stream.partitions is not None:
        stream.partitions.begin_again(clock.steady_ms())


def _reached(stream: StreamState, now: int) -> int | None:
    """A stream's watermark by the wall clock, once that is at ``now``; None where it does not move it."""
    if stream.record.stamping == "arrival":
        return now - stream.lateness_ms
    last, timeout = stream.last_input_ms, stream.idle_timeout_ms
    if not _goes_on(stream) or last is None or not timeout or now - last < timeout:
        return None
    return _stood(stream) + now - last


def _goes_on(stream: StreamState) -> bool:
    return stream.record.clock == "wall-when-idle" and stream.record.stamping != "arrival"


def _stood(stream: StreamState) -> int:
    """The watermark that a stream's last input alone gives."""
    moved = NEVER if stream.seen is None else stream.seen - stream.lateness_ms
    return moved if stream.promised is None else max(moved, stream.promised)
