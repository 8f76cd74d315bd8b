"""A server as a user starts it, and short words for what the tests do with it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx

from tests.program import Program

PREFIX = "http://e/"
TURTLE_HEAD = "@prefix : <http://e/> .\n"
SPARQL_HEAD = "PREFIX : <http://e/>\n"

# kind, at, rows: each row is the values of its bindings in the order of head.vars, joined by a blank
Seen = tuple[str, int, list[str]]


class Server:
    """`quadrill serve` in a process of its own; lines of its standard output are kept."""

    def __init__(
        self, *arguments: str, environment: dict[str, str] | None = None, client_headers: Any = None
    ) -> None:
        self.process = start_cli("serve", "--port", "0", *arguments, environment=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, error = self.process.communicate(timeout=20)
            raise AssertionError(f"the server did not start: {error}")
        self.ready_line = line.rstrip("\n")
        self.url = self.ready_line.removeprefix("Quadrill is ready at ").rstrip("/")
        self.client = httpx.Client(base_url=self.url, timeout=30, headers=client_headers)
        assert self.process.stderr is not None
        self._drains = [self._drain(self.process.stdout), self._drain(self.process.stderr)]

    @staticmethod
    def _drain(pipe: IO[str]) -> threading.Thread:
        """Reads a pipe to its end, so that a full one never holds the server up."""

        def read() -> None:
            with pipe:
                for _ in pipe:
                    pass

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=30)
        for thread in self._drains:
            thread.join(timeout=10)
        return code


def start_cli(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """`quadrill …`, with none of the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUADRILL_")}
    return Program(
        *arguments,
        env={**kept, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_cli(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `quadrill …`."""
    with start_cli(*arguments, environment=environment) as process:
        out, error = process.communicate(timeout=60)
        return process.returncode, out, error


class Event:
    """One event as it came over the wire."""

    def __init__(self, kind: str | None, event_id: str | None, data: str) -> None:
        self.kind = kind
        self.id = event_id
        self.raw = data
        self.data: dict[str, Any] = json.loads(data)

    def __repr__(self) -> str:
        return f"Event({self.kind}, {self.id}, {self.raw})"


class Sse:
    """An open event stream."""

    def __init__(
        self, client: httpx.Client, path: str, headers: dict[str, str] | None = None, **params: Any
    ) -> None:
        sent = {"Accept": "text/event-stream", **(headers or {})}
        self._context = client.stream("GET", path, headers=sent, params=params or None, timeout=15)
        self.answer = self._context.__enter__()
        self.comments: list[str] = []
        self.retry: str | None = None
        self._events = self._parse()

    def __enter__(self) -> Sse:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def take(self, count: int = 1) -> list[Event]:
        return [next(self._events) for _ in range(count)]

    def one(self) -> Event:
        return next(self._events)

    def rest(self) -> list[Event]:
        return list(self._events)

    def _parse(self) -> Iterator[Event]:
        kind, event_id, data = None, None, None
        for line in self.answer.iter_lines():
            if not line:
                if data is not None:
                    yield Event(kind, event_id, data)
                kind, event_id, data = None, None, None
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "id":
                event_id = value
            elif name == "data":
                assert data is None, "data is one line"
                data = value
            elif name == "retry":
                self.retry = value
            elif name == "":
                self.comments.append(value)


def show(term: dict[str, Any] | None) -> str:
    """A term of a SPARQL Results JSON document, short."""
    if term is None:
        return "-"
    if term["type"] == "triple":
        parts = term["value"]
        return f"<<{show(parts['subject'])} {show(parts['predicate'])} {show(parts['object'])}>>"
    value: str = term["value"].removeprefix(PREFIX)
    return value


def rows_of(document: dict[str, Any]) -> list[str]:
    """The rows of a result document, in their order; the graph's lines for a CONSTRUCT."""
    if "quads" in document:
        return [
            line.replace(f"<{PREFIX}", "").replace(">", "").removesuffix(" .")
            for line in document["quads"].splitlines()
        ]
    if "boolean" in document:
        return [str(document["boolean"]).lower()]
    names = document["head"]["vars"]
    return [" ".join(show(row.get(name)) for name in names) for row in document["results"]["bindings"]]


class Bench:
    """What a test may do: streams, queries and names of its own on a server."""

    _numbers = itertools.count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.client
        self._queries: list[str] = []
        self._streams: list[str] = []

    # -- streams ---------------------------------------------------------------------------------

    def stream(self, **declaration: Any) -> str:
        """A new declared stream that never goes idle by itself, as an IRI."""
        iri = f"{PREFIX}s{next(self._numbers)}"
        body = {"iri": iri, "idle_timeout": "1h", **declaration}
        answer = self.client.put("/streams", params={"iri": iri}, json=body)
        assert answer.status_code == 201, answer.text
        self._streams.append(iri)
        return iri

    def describe_stream(self, iri: str) -> dict[str, Any]:
        answer = self.client.get("/streams", params={"iri": iri})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def push(self, iri: str, at: Any, turtle: str, status: int = 200, **params: Any) -> dict[str, Any]:
        """One element in Turtle (TriG when it has braces), answered when its results are in the feeds."""
        kind = "application/trig" if "{" in turtle.replace("{|", "") else "text/turtle"
        if at is not None:
            params["at"] = at
        return self.send(iri, TURTLE_HEAD + turtle, kind, status, **params)

    def send(self, iri: str, body: str, kind: str, status: int = 200, **params: Any) -> dict[str, Any]:
        answer = self.client.post(
            "/streams",
            params={"iri": iri, "wait": "true", **params},
            content=body.encode(),
            headers={"Content-Type": kind},
        )
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def push_lines(self, iri: str, *elements: tuple[Any, str], status: int = 200, **params: Any) -> Any:
        """Several elements in one push, each with its time, in N-Quads with `:` short names."""
        lines = [json.dumps({"at": at, "data": nquads(text)}) for at, text in elements]
        return self.send(iri, "\n".join(lines), "application/x-ndjson", status, **params)

    def beat(self, iri: str, at: Any, status: int = 204) -> httpx.Response:
        answer = self.client.post("/streams:heartbeat", params={"iri": iri, "at": at, "wait": "true"})
        assert answer.status_code == status, answer.text
        return answer

    # -- queries ---------------------------------------------------------------------------------

    def register(self, text: str, **options: Any) -> str:
        answer = self.try_register(text, **options)
        assert answer.status_code == 201, answer.text
        name: str = answer.json()["name"]
        self._queries.append(name)
        return name

    def try_register(self, text: str, **options: Any) -> httpx.Response:
        name = options.pop("name", f"q{next(self._numbers)}")
        return self.client.post(
            "/queries", params={"name": name}, json={"query": SPARQL_HEAD + text, **options}
        )

    def refused(self, status: int, text: str, **options: Any) -> dict[str, Any]:
        """The problem document of a registration that must not succeed."""
        return problem(self.try_register(text, **options), status)

    def describe(self, name: str) -> dict[str, Any]:
        answer = self.client.get(f"/queries/{name}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def events(self, name: str, count: int | None = None) -> list[Event]:
        """The events of a feed from its oldest, all that there are unless a count is given."""
        with Sse(self.client, f"/queries/{name}/results", **{"from": "0"}) as feed:
            if count is not None:
                return feed.take(count)
            last = self.describe(name)["feed"]["last_id"]
            found: list[Event] = []
            while last and (not found or found[-1].id is None or int(found[-1].id) < last):
                found.append(feed.one())
            return found

    def feed(self, name: str, count: int | None = None) -> list[Seen]:
        """The events of a feed as (kind, at, rows); rows of one event are sorted."""
        return [
            (str(event.kind), event.data["at"], sorted(rows_of(event.data)))
            for event in self.events(name, count)
        ]

    def answers(self, name: str) -> list[tuple[int, list[str]]]:
        """The answers of a feed of full reports as (at, rows)."""
        found = self.feed(name)
        assert {kind for kind, _, _ in found} <= {"answer"}
        return [(at, rows) for _, at, rows in found]

    def now(self, name: str) -> list[str]:
        """The current answer."""
        answer = self.client.get(f"/queries/{name}/results")
        assert answer.status_code == 200, answer.text
        return sorted(rows_of(answer.json()))

    def drop(self, name: str) -> None:
        assert self.client.delete(f"/queries/{name}").status_code == 204

    # -- the store -------------------------------------------------------------------------------

    def update(self, text: str, settle: bool = True) -> int:
        """Commits an update, by default waits for what follows from it, and gives the version after it."""
        answer = self.client.post(
            "/update",
            content=(SPARQL_HEAD + text).encode(),
            headers={"Content-Type": "application/sparql-update"},
        )
        assert answer.status_code == 204, answer.text
        if settle:
            self.settle()
        return int(answer.headers["ETag"].strip('"'))

    def query(self, text: str, accept: str = "application/sparql-results+json", **params: Any) -> Any:
        return self.client.post(
            "/query",
            content=(SPARQL_HEAD + text).encode(),
            headers={"Content-Type": "application/sparql-query", "Accept": accept},
            params=params,
        )

    def settle(self) -> None:
        """Waits until the engine has worked off what was accepted before, commits too."""
        self.push(f"{PREFIX}settling", None, ":a :p 1 .")

    def close(self) -> None:
        """Drops what the test made."""
        for query in self.client.get("/queries").json()["queries"]:
            self.client.delete(f"/queries/{query['name']}")
        for stream in self.client.get("/streams").json()["streams"]:
            self.client.delete(f"/streams/{stream['name']}")


def nquads(text: str) -> str:
    """N-Quads of a text with `:x` short names, numbers and `_:b` blank nodes: `:a :p 1 . :b :p 2`."""
    lines = []
    for statement in text.split(" . "):
        words = statement.removesuffix(" .").split()
        lines.append(" ".join(_term(word) for word in words) + " .")
    return "\n".join(lines)


def _term(word: str) -> str:
    if word.startswith(":"):
        return f"<{PREFIX}{word[1:]}>"
    if word.lstrip("-").isdigit():
        return f'"{word}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return word


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The RFC 9457 document of an error."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert answer.headers["Content-Type"].split(";")[0] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail"} <= set(document)
    assert document["status"] == status
    assert "Traceback" not in answer.text
    return document


def eventually(check: Any, seconds: float = 10.0) -> Any:
    """The first true value of `check()`; for what a background thread does, such as a timer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")


def ins(at: int, *rows: str) -> Seen:
    return ("insert", at, sorted(rows))


def dele(at: int, *rows: str) -> Seen:
    return ("delete", at, sorted(rows))


def ans(at: int, *rows: str) -> Seen:
    return ("answer", at, sorted(rows))


def write(folder: Path, name: str, text: str) -> str:
    """A small file, as the path of it."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)
