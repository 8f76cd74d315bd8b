"""A server that ends within an answer: commands and clients resume, or end with a message and an error."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from quadrill.app import cli
from quadrill.app.cli import main
from quadrill.client import AsyncClient, Client, FeedEvent, QuadrillError
from tests.hostile_peers import Peer, peer

Capture = pytest.CaptureFixture[str]
Send = Callable[[Peer, socket.socket], None]
COMMANDS = [
    ["query", "SELECT * { ?s ?p ?o }", "--format", "csv"],
    ["query", "SELECT * { ?s ?p ?o }", "--json"],
    ["query", "SELECT * { ?s ?p ?o }"],
    ["update", "CLEAR ALL"],
    ["export"],
    ["export", "all.nq"],
    ["backup", "copy"],
    ["queries"],
    ["rules", "list"],
    ["shapes", "report", "s"],
    ["streams"],
    ["sources"],
    ["sinks", "--json"],
    ["jobs"],
    ["jobs", "show", "x", "--follow"],
    ["explain", "q"],
    ["dump"],
    ["top", "--once"],
    ["watch", "q"],
    ["push", "s", "a.ndjson", "--retry", "0"],
    ["load", "a.nt"],
    ["map", "s", "a.ndjson"],
    ["apply", "a.toml"],
    ["register", "q.rq"],
    ["mirror"],
    ["mirror", "--show"],
    ["pause", "q"],
    ["resume", "q"],
    ["refresh", "q"],
    ["replay", "q"],
    ["drop", "q"],
    ["declare", "urn:s"],
    ["source", "x"],
    ["sink", "x"],
]
"""Commands that read answers of a server. Enter new ones here."""
LOCAL = {
    *("serve", "demo", "run", "restore", "check", "repair", "migrate", "token", "completion", "version"),
    "validate",
}
"""Commands that read none."""


def short(one: Peer, connection: socket.socket) -> None:
    """Fewer bytes than the head promises."""
    one.send(connection, head("Content-Length: 1000") + b'{"head": {"vars": ["s"]},\n')


def unended(one: Peer, connection: socket.socket) -> None:
    """Chunks without the last one."""
    one.send(connection, head("Transfer-Encoding: chunked") + chunk(b'{"head": {"vars": ["s"]},\n'))


def within_a_chunk(one: Peer, connection: socket.socket) -> None:
    """A chunk that is not whole."""
    one.send(connection, head("Transfer-Encoding: chunked") + b"100\r\n<urn:a> <urn:b>")


def reset(one: Peer, connection: socket.socket) -> None:
    """A body without length that ends by a reset, as the server breaks it off for HTTP/1.0."""
    fields, _, body = one.asked[-1].partition(b"\r\n\r\n")
    if not body and re.search(rb"content-length: [1-9]|chunked", fields, re.IGNORECASE):
        connection.recv(1 << 16)  # the body, whose sender would meet the reset
    one.send(connection, head("Connection: close") + b"<urn:a> <urn:b>")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def before_the_head(_: Peer, __: socket.socket) -> None:
    """No answer at all."""


CUTS = [short, unended, within_a_chunk, reset, before_the_head]


def head(framing: str, media: str = "application/json") -> bytes:
    return f'HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nETag: "1"\r\n{framing}\r\n\r\n'.encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ndjson").write_text('{"a": 1}\n')
    (tmp_path / "a.nt").write_text("<urn:a> <urn:b> <urn:c> .\n")
    (tmp_path / "a.toml").write_text('[streams.s]\niri = "urn:s"\n')
    (tmp_path / "q.rq").write_text("SELECT ?s { STREAM <urn:s> [NOW] { ?s ?p ?o } }")
    return tmp_path


def test_every_command_is_in_one_of_the_tables() -> None:
    assert {line[0] for line in COMMANDS} | LOCAL == {
        each for group in cli.COMMANDS.values() for each in group
    }


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("line", COMMANDS, ids=" ".join)
def test_a_command_whose_answer_is_cut_fails_and_says_so(
    files: Path, capsys: Capture, line: list[str], cut: Send
) -> None:
    with peer(cut) as one:
        code = main([line[0], *line[1:], "--server", one.url])
        told = capsys.readouterr().err
        assert code == 1, told
        assert "quadrill: " in told, told
        assert one.asked, "the server was asked"
    assert not (files / "all.nq").exists() and not list(files.glob(".*.part"))
    assert not (files / "copy").exists()


@pytest.mark.parametrize("cut", CUTS)
def test_a_client_whose_answer_is_cut_raises(cut: Send) -> None:
    with peer(cut) as one, Client(one.url) as client:
        calls: list[Callable[[], object]] = [
            lambda: client.query("ASK {}"),
            lambda: client.queries(),
            lambda: client.current("q"),
            lambda: client.push("s", "<urn:a> <urn:b> <urn:c> .", media_type="application/n-triples"),
            lambda: client.map([{"a": 1}], stream="s"),
            lambda: list(client.feed("q")),
        ]
        for call in calls:
            with pytest.raises(QuadrillError):
                call()


# --- feeds ------------------------------------------------------------------------------------


def event(number: int) -> bytes:
    return chunk(b'retry: 100\nid: %d\nevent: insert\ndata: {"n": %d}\n\n' % (number, number))


class Feed:
    """A feed of three events whose first connections end early, each in another way."""

    def __init__(self, last_id: int = 0) -> None:
        self.last_id, self.feeds = last_id, 0

    def __call__(self, one: Peer, connection: socket.socket) -> None:
        line = one.asked[-1].split(b"\r\n")[0].decode()
        if "/results" not in line:
            body = json.dumps({"name": "q", "feed": {"last_id": self.last_id}}).encode()
            one.send(connection, head(f"Content-Length: {len(body)}\r\nConnection: close") + body)
            return
        self.feeds += 1
        chunked = head("Transfer-Encoding: chunked", "text/event-stream")
        first = self.last_id + 1
        match self.feeds:
            case 1:  # cut before the first event
                one.send(connection, chunked)
            case 2:  # the server has disconnected a client that was too slow
                one.send(connection, chunked + event(first) + b"0\r\n\r\n")
            case 3:  # cut within an event
                one.send(connection, chunked + event(first + 1) + b"40\r\nid: 99\nda")
            case 4:
                one.send(connection, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            case 5:
                one.send(connection, chunked + event(first + 2) + b"0\r\n\r\n")
            case _:
                one.send(connection, b"HTTP/1.1 204 Ended\r\nConnection: close\r\n\r\n")

    def places(self, one: Peer) -> list[int]:
        """Behind which event each connection began."""
        found = []
        for asked in one.asked:
            line, *fields = asked.decode().split("\r\n")
            if "/results" in line:
                resumed = [each.split(": ")[1] for each in fields if each.lower().startswith("last-event-id")]
                found.append(int(resumed[0] if resumed else line.split("from=")[1].split()[0].split("&")[0]))
        return found


@pytest.mark.parametrize("last_id", [0, 7])
def test_watch_takes_up_a_feed_that_breaks_off(capsys: Capture, last_id: int) -> None:
    feed = Feed(last_id)
    with peer(feed) as one:
        assert main(["watch", "q", "--json", "--server", one.url]) == 0
        assert feed.places(one) == [last_id + step for step in (0, 0, 1, 2, 2, 3)]
    told = capsys.readouterr()
    assert [json.loads(each)["id"] for each in told.out.splitlines()] == [
        last_id + step for step in (1, 2, 3)
    ]
    assert "the feed of q has ended" in told.err


def collected(url: str) -> list[FeedEvent]:
    with Client(url) as client:
        return list(client.feed("q"))


def collected_async(url: str) -> list[FeedEvent]:
    async def follow() -> list[FeedEvent]:
        async with AsyncClient(url) as client:
            return [each async for each in client.feed("q")]

    return asyncio.run(follow())


@pytest.mark.parametrize("follow", [collected, collected_async])
def test_a_client_takes_up_a_feed_that_breaks_off(follow: Callable[[str], list[FeedEvent]]) -> None:
    feed = Feed(7)
    with peer(feed) as one:
        assert [each.id for each in follow(one.url)] == [8, 9, 10]
        assert feed.places(one) == [7, 7, 8, 9, 9, 10]


def test_watch_ends_with_a_message_when_the_server_stays_away(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quadrill.app.commands.connection.time.sleep", lambda _: None)
    feed = Feed()

    def once(one: Peer, connection: socket.socket) -> None:
        if feed.feeds == 2:
            one.close()
        else:
            feed(one, connection)

    with peer(once) as one:
        assert main(["watch", "q", "--json", "--server", one.url]) == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1 and "no server answers" in told.err


def test_a_feed_that_is_none_ends_with_a_message(capsys: Capture) -> None:
    def endless_line(one: Peer, connection: socket.socket) -> None:
        one.send(connection, head("Connection: close", "text/event-stream"))
        while True:
            one.send(connection, b"data: " + b"x" * (1 << 20))

    with peer(endless_line) as one:
        assert main(["watch", "q", "--from", "0", "--server", one.url]) == 1
        assert "the feed cannot be read" in capsys.readouterr().err
        with Client(one.url) as client, pytest.raises(Exception, match="longer than"):
            list(islice(client.feed("q", resume=0), 1))
