"""The command ``quadrill push``: pushes a file in one request, or lines of standard input as they arrive."""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arguments import add_client_command, media_type_of, stream_address
from .connection import ServerConnection, ServerError, UnreachableError, connect

PIPED = "application/n-quads"
"""Media type of standard input if the option ``--type`` is missing."""
PUSH_TYPES = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".json": "application/json",
}
"""Media types of records by file name ending; `media_type_of` has those of RDF."""
_LINES_OF_RDF = ("application/n-triples", "application/n-quads")
"""RDF formats with one statement per line."""
_AGAIN = (429, 502, 503, 504)
"""HTTP status codes of a server after which a push is retried."""
_WAITING_LINES = 10_000
"""Maximum number of lines of standard input that are read before they are pushed."""
_BATCH_BYTES = 1 << 20
"""Size in bytes at which a block of lines is pushed, even if it could have more lines."""
_SUMS = ("accepted", "late", "dropped", "early", "skipped")
"""Members of the server's answers that are summed over all pushes."""


def add_commands(commands: Any) -> None:
    """Add the command ``push`` to the command line parser."""
    push = add_client_command(
        commands,
        "push",
        _push,
        "push elements to a stream",
        "push readings readings.ndjson",
        "push readings element.ttl --at 2024-06-01T10:00:00Z",
        "push readings - --type text/csv < readings.csv",
        further="The counts in the server's answer are printed as JSON. Lines of standard input are pushed "
        "as they arrive if they are NDJSON, CSV, or with --each triple N-Triples or N-Quads; standard input "
        "in another format is one push at its end",
    )
    push.add_argument("stream", help="the stream's name or IRI")
    push.add_argument("file", help="a file, or - for standard input")
    push.add_argument(
        "--type",
        metavar="MEDIA_TYPE",
        help=f"media type (default: by the file's ending, {PIPED} for standard input)",
    )
    push.add_argument("--at", metavar="TIME", help="event time: milliseconds or xsd:dateTime")
    push.add_argument("--each", choices=("triple",), help="make each triple a separate element")
    push.add_argument(
        "--partial", action="store_true", help="accept the valid elements and list the invalid ones"
    )
    push.add_argument("--wait", action="store_true", help="wait until the results are in the feeds")
    push.add_argument(
        "--batch", type=int, default=1_000, metavar="LINES", help="maximum number of lines in one push"
    )
    push.add_argument(
        "--linger",
        type=float,
        default=0.2,
        metavar="SECONDS",
        help="maximum time that a line waits for further lines (default: %(default)s)",
    )
    push.add_argument(
        "--retry",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time to retry while the server is unreachable or overloaded (default: %(default)s)",
    )


def _push(options: argparse.Namespace) -> int:
    media_type = options.type or PUSH_TYPES.get(Path(options.file).suffix)
    if media_type is None and options.file == "-":
        media_type = PIPED
        print(f"standard input is read as {PIPED}; --type names another format", file=sys.stderr)
    media_type = media_type or media_type_of(Path(options.file))
    with connect(options) as server:
        push = _Push(server, options, media_type)
        try:
            if options.file == "-" and push.by_lines:
                push.lines(sys.stdin.fileno())
            elif options.file == "-":
                push.send(sys.stdin.buffer.read(), 0)
            else:
                push.send(Path(options.file).read_bytes(), 0)
        finally:
            push.print_sums()
    return 1 if push.sums["dropped"] or push.bad else 0


@dataclass
class _Push:
    """Sender of the pushes of one ``quadrill push`` command.

    Attributes:
        sums: the sums of the counts in the server's answers.
        bad: the number of rejected elements of partial pushes.
        answer: the last answer of the server.
        first_seq: the sequence number of the first pushed element.
        sent: the number of pushes, which makes their idempotency keys unique.
    """

    server: ServerConnection
    options: argparse.Namespace
    media_type: str
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    bad: int = 0
    answer: dict[str, Any] | None = None
    first_seq: int | None = None
    sent: int = 0

    def __post_init__(self) -> None:
        given = self.options
        self.path, self.parameters = stream_address(given.stream)
        self.parameters |= {name: value for name in ("at", "each") if (value := getattr(given, name))}
        self.parameters |= {name: "true" for name in ("partial", "wait") if getattr(given, name)}
        self._run = uuid.uuid4().hex

    @property
    def by_lines(self) -> bool:
        """True if each input line is a complete element, so that lines can be pushed as they arrive."""
        kind = self.media_type.partition(";")[0].strip()
        by_triple = kind in _LINES_OF_RDF and self.options.each == "triple"
        return kind in ("application/x-ndjson", "text/csv") or by_triple

    def lines(self, source: int) -> None:
        """Push the lines of a file descriptor in batches as they arrive; an interrupt ends the input."""
        header, before = b"", 0
        for block in _batches(source, self.options.batch, self.options.linger):
            lines = block
            if before == 0 and self.media_type.startswith("text/csv"):
                header, *lines = block
            if any(line.strip() for line in lines):
                # The server reports errors in pushed lines by their line number in the push. The line number
                # in the input is greater than in the push by the number of earlier input lines, less one for
                # the repeated CSV header.
                self.send(header + b"".join(lines), before - (1 if header and before else 0))
            before += len(block)

    def send(self, body: bytes, before: int) -> None:
        """Send one push, and retry it while the server is unreachable or overloaded.

        All attempts have the same idempotency key, so a retry does not add elements twice.

        ``before`` is the number of input lines that earlier pushes have sent.

        Raises: ServerError when the server rejects the push, or stays unreachable.
        """
        self.sent += 1
        headers = {"Content-Type": self.media_type, "Idempotency-Key": f"{self._run}-{self.sent}"}
        deadline, wait = time.monotonic() + self.options.retry, 0.1
        while True:
            try:
                answer = self.server.call(
                    "POST", self.path, params=self.parameters, content=body, headers=headers
                ).json()
                break
            except ServerError as error:
                away = isinstance(error, UnreachableError) or error.status in _AGAIN
                if not away or time.monotonic() + wait > deadline:
                    if before > 0:
                        message = f"{before} lines were pushed, then: {error.message}"
                        raise ServerError(message, hint=error.hint) from error
                    raise
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(5.0, 2 * wait)
        self._count(answer, before)

    def _count(self, answer: dict[str, Any], before: int) -> None:
        self.answer = answer
        self.first_seq = answer["first_seq"] if self.first_seq is None else self.first_seq
        for name in _SUMS:
            self.sums[name] += answer.get(name, 0)
        for each in answer.get("bad", ()):
            self.bad += 1
            place = f"line {each['line'] + before}" if "line" in each else each["element"]
            print(f"{place}: {each['error']}", file=sys.stderr)

    def print_sums(self) -> None:
        """Print the sums of all pushes as JSON, and counts of dropped and bad elements on standard error."""
        if self.answer is None:
            return
        sums = self.answer | {name: self.sums[name] for name in _SUMS if name in self.answer}
        print(json.dumps(sums | {"first_seq": self.first_seq}, ensure_ascii=False), flush=True)
        listing = f"quadrill streams dead-letters {self.options.stream}"
        for number, what in (
            (self.sums["dropped"], f"late and dropped; {listing} lists them"),
            (self.sums["early"], f"early, ahead of the clock, and did not enter; {listing} lists them"),
            (self.bad - self.sums["early"], "bad and did not enter"),
        ):
            if number:
                shown = "1 element was" if number == 1 else f"{number} elements were"
                print(f"{shown} {what}", file=sys.stderr)


def _batches(source: int, most: int, linger: float) -> Iterator[list[bytes]]:
    """Yield the lines of a file descriptor in blocks as they arrive.

    A block ends at ``most`` lines, at `_BATCH_BYTES`, or ``linger`` seconds after its first line.
    """
    waiting: queue.Queue[bytes | None] = queue.Queue(_WAITING_LINES)
    threading.Thread(target=_read, args=(source, waiting), name="quadrill-stdin", daemon=True).start()
    block: list[bytes] = []
    size, due, ended = 0, 0.0, False
    while not ended:
        try:
            line = waiting.get(timeout=max(0.0, due - time.monotonic()) if block else None)
        except queue.Empty:
            line = b""
        except KeyboardInterrupt:
            line = None
        if line is None:
            ended = True
        elif line:
            due = due if block else time.monotonic() + linger
            block.append(line)
            size += len(line)
        full = len(block) >= most or size >= _BATCH_BYTES
        if block and (ended or full or time.monotonic() >= due):
            yield block
            block, size = [], 0


def _read(source: int, waiting: queue.Queue[bytes | None]) -> None:
    """Enqueue the lines of a file descriptor; a full queue blocks this thread, and thus the writer of a pipe.

    The reading thread uses the file descriptor instead of sys.stdin, whose lock the thread would hold at
    exit.
    """
    rest = b""
    try:
        while chunk := os.read(source, 1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                waiting.put(line + b"\n")
        if rest:
            waiting.put(rest + b"\n")
    finally:
        waiting.put(None)
