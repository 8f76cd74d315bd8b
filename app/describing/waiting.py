"""Reasons why a query emits no results, with numbers, derived from the query's description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from typing import Literal as OneOf

from quadrill.store.documents.times import format_instant, show_duration

_SILENT_MS = 5_000
"""Milliseconds without an element after which a stream counts as silent, even if it never becomes idle."""

_AHEAD_MS = 1_000
"""Minimum milliseconds by which a stream must be ahead of the clock for a reason to be reported."""

Word = OneOf[
    "source",
    "late",
    "idle",
    "watermark",
    "window-empty",
    "static-empty",
    "filtered",
    "paused",
    "failed",
    "no-element",
    "starting",
]


class WaitingReason(NamedTuple):
    """Reason why a query has no results or delays further results.

    ``number`` of a reason counts elements, rows of a static part, records that a source refused or journal
    records, and is None for reasons without a count. ``source`` has the members ``source`` (name), ``error``
    and ``at`` (milliseconds since 1970) of the reason ``source``.
    """

    word: Word
    stream: str | None
    number: int | None
    text: str
    source: Mapping[str, Any] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """Return the reason why a query waits as a JSON object."""
        known = {"reason": self.word, "stream": self.stream, "count": self.number, "text": self.text}
        return {**known, **self.source}


def waiting_for(
    document: dict[str, Any], sources: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({})
) -> list[WaitingReason]:
    """Return the reasons why a query has no results or delays further results, most important first.

    Args:
        document: the description of the query, optionally with measured row counts of its plan.
        sources: descriptions of the sources that feed the query, directly or through streams that other
            queries make, by the IRI of the stream that they push to.
    """
    if "starting" in document:
        replay = document["starting"]
        text = f"the server is starting: {replay['replayed']} of {replay['records']} records are replayed"
        return [WaitingReason("starting", None, replay["records"] - replay["replayed"], text)]
    match document["state"]:
        case "paused":
            return [
                WaitingReason(
                    "paused", None, None, 'the query is paused; PATCH {"state": "running"} resumes it'
                )
            ]
        case "failed":
            return [WaitingReason("failed", None, None, f"the query has failed: {document['error']}")]
        case "materialising":
            made = document["progress"]
            text = (
                f"its static parts are being read: {made['ready']} of {made['parts']} are ready, "
                f"{made['rows']} rows read so far"
            )
            return [WaitingReason("static-empty", None, made["rows"], text)]
    has_results = document["last_result"] is not None
    found = [
        *_of_sources(sources, has_results=has_results),
        *_of_clocks(document),
        *(reason for stream in document["streams"] for reason in _of_stream(stream, has_results=has_results)),
        *_of_partitions(document),
        *_of_watermark(document, has_results=has_results),
    ]
    if has_results:
        return found
    counters = document["counters"]
    own = counters["late"] - sum(stream["late"] for stream in document["streams"])
    if own:
        text = (
            f"{_elements(own)} below the watermark of this query, which has a smaller lateness than other "
            "queries of the stream, and dropped"
        )
        found.append(WaitingReason("late", None, own, text))
    ahead = [] if any(each.word == "watermark" for each in found) else [*_of_windows_to_come(document)]
    found += [*ahead, *_of_windows(document), *_of_static_parts(document)]
    lacks = bool(ahead) or any(reason.word in ("no-element", "static-empty") for reason in found)
    if counters["evaluations"] and not lacks and (counters["elements"] or not document["windows"]):
        taken, times = counters["elements"], counters["evaluations"]
        text = (
            f"{_elements(taken)} taken, but {times} evaluation{'s' * (times != 1)} emitted no rows: "
            f"{_where_rows_end(document) or 'none passed the patterns and filters'}"
        )
        found.append(WaitingReason("filtered", None, taken, text))
    return found


def _where_rows_end(document: dict[str, Any]) -> str | None:
    """Return a sentence on the first operator of a plan with input rows and no output rows, if measured."""
    for each in document.get("operators") or ():
        if each["rows_in"] and not each["rows_out"]:
            name = " ".join(f"{each['operator']} {each['detail']}".split())
            rows = "the one row" if each["rows_in"] == 1 else f"the {each['rows_in']} rows"
            return f"none of {rows} that reached operator #{each['number']} passed it ({name})"
    return None


def _of_stream(stream: dict[str, Any], *, has_results: bool) -> Iterator[WaitingReason]:
    """Return why one stream delays a query's results: late elements, no element, or an idle stream."""
    iri, late = stream["iri"], stream["late"]
    if late and (stream["last_was_late"] or not has_results):
        yield WaitingReason("late", iri, late, _late(stream))
    elif not has_results and (not stream["active"] or stream["newest"] is None):
        text = f"no element of <{iri}> has come since registration"
        if stream["newest"] is not None:
            text += f"; the newest before is of {format_instant(stream['newest'])}"
        if stream["early"]:
            text += f"; {_elements(stream['early'])} early: refused, because their time is ahead of the clock"
        yield WaitingReason("no-element", iri, 0, text)
    if stream["reached"] is None or stream["name"] is None:
        return
    silent = stream["silent_ms"]
    # A stream may have been idle since before a restart of the server, but its silence is measured from the
    # restart.
    if silent is not None and silent < (stream["idle_timeout_ms"] or _SILENT_MS):
        return
    if stream["idle"] or (not stream["idle_timeout_ms"] and silent is not None and silent >= _SILENT_MS):
        since = "" if silent is None else f" for {_about(silent)}"
        text = (
            f"stream <{iri}> is idle: nothing has come{since}, event time stands at "
            f"{format_instant(stream['reached'])}; push an element or {_heartbeat(stream)}"
        )
        yield WaitingReason("idle", iri, None, text)


def _of_sources(
    sources: Mapping[str, Sequence[Mapping[str, Any]]], *, has_results: bool
) -> Iterator[WaitingReason]:
    """Return reasons for sources that refuse records or do not run.

    For a query with results, only a refusal of the last minute and a failure count.
    """
    for stream, descriptions in sources.items():
        for each in descriptions:
            state, refused, refusal = each["state"], each["refused"], each["last_refusal"]
            hindered = state in ("waiting", "failed") or (state == "stopped" and not has_results)
            counts = each["health"] == "degraded" or (refused and not has_results)
            if not (hindered or counts):
                continue
            error, at = each["error"], None
            parts = [f"is {state}"] if hindered else []
            parts[1:] = [error] if hindered and error else []
            text = f"the source {each['name']} of <{stream}> {': '.join(parts)}"
            if counts and refusal is not None:
                error, at = refusal["error"], refusal["at"]
                text += (" and " if parts else "") + (
                    f"has refused {refused:,} record{'' if refused == 1 else 's'}, the newest at "
                    f"{format_instant(at)}: {error}"
                )
            members = {"source": each["name"], "error": error, "at": at}
            yield WaitingReason("source", stream, refused, text, members)


def _late(stream: dict[str, Any]) -> str:
    text = f"{_elements(stream['late'])} late and dropped"
    mark, newest = stream["watermark"], stream["newest_late"]
    if mark is not None and newest is not None:
        text += (
            f", the newest by {_about(mark - newest)}: it is of {format_instant(newest)}, "
            f"the watermark of <{stream['iri']}> stands at {format_instant(mark)}"
        )
    return f"{text}; a lateness of the stream, or late: admit, accepts such elements"


def _of_clocks(document: dict[str, Any]) -> Iterator[WaitingReason]:
    """Return reasons for streams whose time stands still because the server's clock was set back."""
    for stream in document["streams"]:
        ahead = stream.get("ahead_ms") or 0
        if ahead >= _AHEAD_MS:
            text = (
                f"the time of <{stream['iri']}> is {_about(ahead)} ahead of the clock, which was set back: "
                f"it stands at {format_instant(stream['watermark'])} until then; "
                f"POST /streams/{stream['name']}:reset-time resets it"
            )
            yield WaitingReason("watermark", stream["iri"], None, text)


def _of_partitions(document: dict[str, Any]) -> Iterator[WaitingReason]:
    """Return reasons for stream elements that wait for one partition of a source."""
    waiting = document["counters"]["waiting"]
    for stream in document["streams"] if waiting else ():
        if (held := stream.get("held_by")) is not None:
            name, at = held
            stands = "has had no element" if at is None else f"stands at {format_instant(at)}"
            text = (
                f"the partition {name or 'of direct pushes'} of <{stream['iri']}> {stands}, "
                f"{_elements(waiting, 'waiting')} for it, or for it to be idle"
            )
            yield WaitingReason("watermark", stream["iri"], waiting, text)


def _of_watermark(document: dict[str, Any], *, has_results: bool) -> Iterator[WaitingReason]:
    """Return reasons for elements, or a query's first report, that wait for the watermark of a stream."""
    streams = [
        each
        for each in document["streams"]
        if each["reached"] is not None and not each["idle"] and each["name"]
    ]
    if not streams or any(each.get("held_by") for each in streams if document["counters"]["waiting"]):
        return
    slowest = min(streams, key=lambda each: each["reached"])
    waiting, silent = document["counters"]["waiting"], slowest["silent_ms"]
    iri = slowest["iri"]
    stands = f"the watermark of <{iri}> is {format_instant(slowest['reached'])}"
    behind = slowest["reached"] < max(each["reached"] for each in streams)
    if waiting and (not has_results or behind or (silent is not None and silent >= _SILENT_MS)):
        needed = format_instant(document["next_element"])
        text = f"{stands}, {_elements(waiting, 'waiting')} for it to reach {needed}: {_advice(slowest)}"
        yield WaitingReason("watermark", iri, waiting, text)
    elif (
        not (has_results or waiting or document["counters"]["evaluations"])
        and document["next_report"] is not None
    ):
        report = format_instant(document["next_report"])
        text = f"the next report is at {report}; {stands}: {_advice(slowest)}"
        yield WaitingReason("watermark", iri, 0, text)


def _of_windows_to_come(document: dict[str, Any]) -> Iterator[WaitingReason]:
    """Return reasons for windows that show their elements only at a later instant.

    Windows that show elements later lie on a grid, end before the present instant, or wait for the end of a
    NOT step.
    """
    taken = document["counters"]["elements"]
    for window in document["windows"] if taken and not document["counters"]["waiting"] else ():
        if window["state_size"] and not window["quads"] and window["next_change"] is not None:
            at = format_instant(window["next_change"])
            for stream in document["streams"]:
                if stream["iri"] in window["streams"] and stream["name"]:
                    text = (
                        f"the window {window['window']} on <{stream['iri']}> shows its elements at {at} at "
                        f"the earliest: push to the stream or {_heartbeat(stream)}"
                    )
                    yield WaitingReason("watermark", stream["iri"], taken, text)


def _of_windows(document: dict[str, Any]) -> Iterator[WaitingReason]:
    """Return reasons for windows that all elements have left, or that close after a number of elements."""
    counters = document["counters"]
    taken = counters["elements"]
    for window in document["windows"] if taken and not counters["waiting"] else ():
        for iri in window["left"]:
            at = format_instant(document["instant"])
            text = f"the window {window['window']} on <{iri}> is empty at {at}: all elements have left it"
            yield WaitingReason("window-empty", iri, taken, text)
        if window["closes"] and window["next_change"] is None and not counters["evaluations"]:
            for iri in window["streams"]:
                text = (
                    f"the window {window['window']} on <{iri}> has not closed yet: {_elements(taken)} taken"
                )
                yield WaitingReason("window-empty", iri, taken, text)


def _of_static_parts(document: dict[str, Any]) -> Iterator[WaitingReason]:
    """Return reasons for required static parts without rows, and for static parts with old rows."""
    if document["windows"] and not document["streams"]:
        text = "static data binds the window's stream variable to no stream yet"
        yield WaitingReason("static-empty", None, 0, text)
    for part in document["static_parts"]:
        name, rows = f"the static part {part['name']}", part["rows"]
        if part["behind_since"] is not None:
            text = (
                f"all rows of {name} are being read since version {part['behind_since']}; "
                "until then its old rows are in use"
            )
            yield WaitingReason(
                "static-empty", None, rows, f"{text}: {part['problem']}" if part["problem"] else text
            )
        elif rows == 0 and part["lookup"] is None and part["needed"]:
            names = " ".join(f"?{variable}" for variable in part["variables"])
            pattern = " ".join(part["pattern"].split())
            yield WaitingReason("static-empty", None, 0, f"{name} ({names}) has no rows: {pattern}")
    for source in document["sources"]:
        if source["stale"]:
            text = f"the rows of <{source['source']}> are stale: {source['stale_reason']}"
            yield WaitingReason("static-empty", None, None, text)


def _elements(number: int, verb: str = "") -> str:
    """Format a number of stream elements with a verb: ``verb``, or "was" or "were" if it is empty."""
    if verb:
        return f"{number} element{'' if number == 1 else 's'} {verb}"
    return "1 element was" if number == 1 else f"{number} elements were"


def _heartbeat(stream: dict[str, Any]) -> str:
    return f"send a heartbeat (POST /streams/{stream['name']}:heartbeat?at=)"


def _advice(stream: dict[str, Any]) -> str:
    """Return a sentence on how a user can advance the watermark of a stream."""
    if (maker := stream["derived_from"]) is not None:
        return f"it follows the query {maker}; waiting_for of that query lists its reasons"
    return f"push to it or {_heartbeat(stream)}"


def _about(ms: int) -> str:
    """Format milliseconds as a duration, rounded down to the largest unit of which it has at least ten."""
    for unit in (86_400_000, 3_600_000, 60_000, 1_000):
        if ms >= 10 * unit:
            return show_duration(ms - ms % unit)
    return show_duration(ms)
