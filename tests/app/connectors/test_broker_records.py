"""Records of brokers: arrays, null, fields of the broker, where a dead letter stood."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quadrill.app.connectors.dead_letters import DeadLetterFile
from quadrill.app.connectors.source import JSON, Message, SourceContext
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts


class _Stream:
    """Takes lines without the word bad; of those with the word odd it says that they are bad."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.position: str | None = None

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        if b"bad" in body:
            raise InputError("it is bad")
        lines = body.splitlines()
        good = [each for each in lines if b"odd" not in each]
        self.lines += [json.loads(each) for each in good]
        self.position = call.position[1]
        bad = [{"line": place, "error": "odd"} for place, each in enumerate(lines, 1) if b"odd" in each]
        return {"accepted": len(good), "skipped": 0, "bad": bad}


@pytest.fixture
def stream() -> _Stream:
    return _Stream()


@pytest.fixture
def context(stream: _Stream) -> SourceContext:
    streams = cast(StreamService, SimpleNamespace(push=stream.push))
    return SourceContext("s", "urn:s", streams, AllowedHosts(), (), DeadLetterFile(None))


def push(context: SourceContext, *bodies: bytes, **fields: Any) -> None:
    messages = [
        (
            Message(body, fields, origin={"topic": "t", "partition": 0, "offset": place, "key": "k"}),
            str(place),
        )
        for place, body in enumerate(bodies)
    ]
    context.push_messages(messages, JSON)


def test_array_enters_as_its_members_and_null_is_skipped(context: SourceContext, stream: _Stream) -> None:
    push(context, b'[{"a":1},{"a":2},null]', b"null", b"[]", b'{"a":3}', _topic="t")
    assert stream.lines == [{"_topic": "t", "a": number} for number in (1, 2, 3)]
    assert context.figures.skipped == 3
    assert stream.position == "3"


def test_array_without_fields_enters_as_its_members(context: SourceContext, stream: _Stream) -> None:
    push(context, b'[{"a":1},\n{"a":2}]')
    assert stream.lines == [{"a": 1}, {"a": 2}]


def test_null_alone_moves_the_position(context: SourceContext, stream: _Stream) -> None:
    push(context, b"null", b"null")
    assert stream.lines == []
    assert stream.position == "1"


def test_fields_of_the_broker_win(context: SourceContext, stream: _Stream) -> None:
    push(context, b'{"_topic":"forged","_key":"forged","v":1}', _topic="t", _key=None)
    assert stream.lines == [{"_topic": "t", "_key": None, "v": 1}]


@pytest.mark.parametrize("word", ["bad", "odd"])
def test_dead_letter_tells_where_the_record_stood_and_where_it_was_cut(
    context: SourceContext, stream: _Stream, word: str
) -> None:
    push(context, b'{"v":1}', b'["x",{"v":"%s%s"}]' % (word.encode(), b"x" * 5_000), b'{"v":2}', _topic="t")
    (letter,) = context.letters.list()
    assert (letter["topic"], letter["partition"], letter["offset"], letter["key"]) == ("t", 0, 1, "k")
    assert letter["cut"]["at"] == len(letter["record"]) == 4_000
    assert letter["cut"]["of"] > 5_000
    assert [each["v"] for each in stream.lines if "v" in each] == [1, 2]
    assert stream.position == "2"
