"""Sends the requests of one scenario to a new server, and collects answers, log lines and figures."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.store.registry import TokenRecord

from .normal import Normaliser
from .wire import Answer, Connection, NoAnswerError

RECORDED = Path(__file__).parent / "recorded"
_REQUESTS = re.compile(r'^quadrill_http_requests_total\{method="(.*)",route="(.*)",status="(\d+)"\} (\S+)$')
_TIMES = re.compile(r'^quadrill_http_request_seconds_count\{route="(.*)"\} (\S+)$')
_REPEATED = {"$LARGE": "x" * 70_000, "$MANY": "X-Many: 1\r\n" * 300}
_SESSION = re.compile(r"quadrill_session=([\w-]+)")
_LOG_LINE = re.compile(r'(\S+) "(.*)" (\d+) [\d.]+ ms$')


@dataclass
class Step:
    """What is sent at once, and how many answers it gets.

    Attributes:
        send: the pieces, each a text of latin-1 characters; ``$HOST`` becomes the server's address,
            ``$SESSION`` the value of the latest session cookie, ``$LARGE`` 70,000 letters, ``$MANY`` 300
            lines of a head.
        methods: of the requests in it, one for each answer.
        fresh: on a new connection.
        waits: after the first piece, wait for the interim answer `100 Continue`.
        until: read the body of a success as far as this text, and then close the connection.
    """

    send: list[str]
    methods: list[str] = field(default_factory=list)
    fresh: bool = False
    waits: bool = False
    until: str | None = None

    def __post_init__(self) -> None:
        self.methods = self.methods or [self.send[0].split(" ", 1)[0]]


@dataclass
class Scenario:
    """Requests in a fixed order to a new server.

    Attributes:
        name: of its file.
        settings: of the server; ``$FOLDER`` becomes a temporary folder.
        tokens: text and role of each token of the registry.
        steps: what is sent.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


@dataclass
class Outcome:
    """What a server made of a scenario: answers by step, log lines, and requests by method, route, status."""

    answers: list[list[dict[str, object]]]
    log: list[str]
    requests: dict[str, int]


def run(scenario: Scenario, folder: Path, expected: Outcome | None = None) -> Outcome:
    """Run a scenario; with an expected outcome, wait until as many requests are logged and counted."""
    log = folder / "access.log"
    settings = {
        name: value.replace("$FOLDER", str(folder)) if isinstance(value, str) else value
        for name, value in scenario.settings.items()
    }
    settings = {"data": ":memory:", "port": 0, "access_log": str(log), **settings}
    with running.serve(
        Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()})
    ) as server:
        for token, role in scenario.tokens.items():
            digest = hashlib.sha256(token.encode()).hexdigest()
            server.services.registry.tokens.add(TokenRecord(digest, role, role, 0))
        server.services.security.refresh()
        host = server.url.split("/")[2]
        speaker = _Speaker(host)
        answers = [speaker.step(step) for step in scenario.steps]
        speaker.close()
        wanted = None if expected is None else len(expected.log)
        lines = _awaited(lambda: log.read_text("utf-8").splitlines(), len, wanted)
        total = None if expected is None else sum(expected.requests.values())
        token = next((token for token, role in scenario.tokens.items() if role == "admin"), "")
        counted = _awaited(lambda: _figures(host, token), lambda found: sum(found.values()), total)
        normal = Normaliser(host)
        return Outcome(answers, sorted(_plain(line, normal) for line in lines), counted)


class _Speaker:
    """Sends steps and keeps the connection while the server keeps it."""

    def __init__(self, host: str) -> None:
        name, _, port = host.rpartition(":")
        self._address = (name, int(port))
        self._host = host
        self._normal = Normaliser(host)
        self._session = ""
        self._connection: Connection | None = None

    def step(self, step: Step) -> list[dict[str, object]]:
        """The answers of one step, as they are recorded."""
        if step.fresh:
            self.close()
        if self._connection is None:
            self._connection = Connection(self._address)
        here = {"$HOST": self._host, "$SESSION": self._session, **_REPEATED}
        pieces = [_filled(piece, here).encode("latin-1") for piece in step.send]
        found: list[dict[str, object]] = []
        try:
            if step.waits:
                self._connection.send(pieces[:1])
                first = self._read(step, 0)
                found.append(self._normal.answer(step.send[0], first))
                if first.status != 100:
                    return found
                pieces = pieces[1:]
            self._connection.send(pieces)
            for number in range(len(step.methods)):
                found.append(self._normal.answer(step.send[0], self._read(step, number)))
                if self._connection is None:
                    break
        except NoAnswerError as error:
            found.append({"status": f"no answer: {error}"})
            self.close()
        if step.until is not None:
            self.close()
        return found

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, step: Step, number: int) -> Answer:
        assert self._connection is not None
        until = None if step.until is None else step.until.encode("latin-1")
        answer = self._connection.answer(step.methods[number], until)
        if session := _SESSION.match(answer.header("set-cookie")):
            self._session = session[1]
        if answer.endless:
            self.close()
            return answer
        kept = answer.header("connection").lower()
        if until is None and answer.status >= 200 and ("close" in kept or _leaves(answer, kept)):
            answer.closed = self._connection.ended()
            self.close()
        return answer


def _filled(piece: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        piece = piece.replace(name, value)
    return piece


def _leaves(answer: Answer, kept: str) -> bool:
    return answer.version == "HTTP/1.0" and "keep-alive" not in kept or bool(answer.notes)


def _awaited(read: Callable[[], Any], size: Callable[[Any], float], wanted: float | None) -> Any:
    """What is read once it has the size wanted, or does not grow any more for a moment."""
    found, since = read(), time.monotonic()
    while True:
        if wanted is None and time.monotonic() - since > 0.3:
            return found
        if wanted is not None and (size(found) >= wanted or time.monotonic() - since > 5):
            return read()
        time.sleep(0.02)
        again = read()
        if size(again) != size(found):
            found, since = again, time.monotonic()


def _plain(line: str, normal: Normaliser) -> str:
    match = _LOG_LINE.search(line)
    assert match is not None, line
    return normal.text(f"{match[1]} {match[2]} {match[3]}")


def _figures(host: str, token: str) -> dict[str, int]:
    name, _, port = host.rpartition(":")
    connection = Connection((name, int(port)))
    given = f"Authorization: Bearer {token}\r\n" if token else ""
    connection.send([f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n{given}Connection: close\r\n\r\n".encode()])
    answer = connection.answer("GET")
    connection.close()
    assert answer.status == 200, answer
    found: dict[str, int] = {}
    for line in answer.body.decode().splitlines():
        if match := _REQUESTS.match(line):
            found[" ".join(match.groups()[:3])] = round(float(match[4]))
        elif match := _TIMES.match(line):
            found["timed " + match[1]] = round(float(match[2]))
    # These requests themselves.
    return {key: value for key, value in found.items() if key not in ("GET /metrics 200", "timed /metrics")}


def write(scenario: Scenario, outcome: Outcome, folder: Path = RECORDED) -> None:
    """Write a scenario and its outcome as JSON lines: settings, one line a step, log, requests."""
    lines: list[Any] = [{"settings": scenario.settings, "tokens": scenario.tokens}]
    for step, answers in zip(scenario.steps, outcome.answers, strict=True):
        line: dict[str, Any] = {"send": step.send}
        if step.methods != [step.send[0].split(" ", 1)[0]]:
            line["methods"] = step.methods
        line |= {name: True for name in ("fresh", "waits") if getattr(step, name)}
        if step.until is not None:
            line["until"] = step.until
        lines.append({**line, "answers": answers})
    lines.append({"log": dict(sorted(Counter(outcome.log).items()))})
    lines.append({"requests": dict(sorted(outcome.requests.items()))})
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    (folder / f"{scenario.name}.jsonl").write_text(text, "utf-8")


def read(path: Path) -> tuple[Scenario, Outcome]:
    """Read what `write` has written."""
    first, *steps, log, requests = [
        json.loads(line) for line in path.read_text("utf-8").rstrip("\n").split("\n")
    ]
    answers = [step.pop("answers") for step in steps]
    scenario = Scenario(path.stem, first["settings"], first["tokens"], [Step(**step) for step in steps])
    lines = sorted(Counter(log["log"]).elements())
    return scenario, Outcome(answers, lines, requests["requests"])


def differences(scenario: Scenario, expected: Outcome, found: Outcome) -> Iterator[str]:
    """Each difference as a text: the request, then lines that are missing (-) and that are new (+)."""
    for step, before, after in zip(scenario.steps, expected.answers, found.answers, strict=True):
        if before != after:
            old, new = _lines(before), _lines(after)
            yield "\n".join(
                (
                    "".join(step.send)[:600].replace("\r\n", "\n").rstrip(),
                    *(f"    - {line}" for line in old if line not in new),
                    *(f"    + {line}" for line in new if line not in old),
                )
            )
    for title, was, now in (
        ("access log", Counter(expected.log), Counter(found.log)),
        ("requests counted", expected.requests, found.requests),
    ):
        for key in sorted({*was, *now}):
            if was.get(key, 0) != now.get(key, 0):
                yield f"{title}: {key}: {was.get(key, 0)} times before, {now.get(key, 0)} times now"


def _lines(answers: list[dict[str, object]]) -> list[str]:
    found = []
    for answer in answers:
        for name, value in answer.items():
            found += [str(line) for line in value] if isinstance(value, list) else [f"{name}: {value}"]
    return found
