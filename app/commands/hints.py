"""Hints of commands: commands in place of the HTTP requests that a server names."""

from __future__ import annotations

import re

_REQUESTS: tuple[tuple[str, str], ...] = (
    (r"GET /(streams|sources|sinks|queries|rules|shapes|jobs)(?![/\w])", r"quadrill \1"),
    (r"PUT /streams/[<{]name[>}]", "quadrill declare NAME"),
    (r"GET /streams/\{name\}/dead-letters", "quadrill streams dead-letters NAME"),
    (r"POST /streams/(\S+):reset-time", r"quadrill streams reset-time \1"),
    (r"POST /streams/(\S+):heartbeat\?at=", r"quadrill streams heartbeat \1 TIME"),
    (r"GET /queries/([^\s/]+) ", r"quadrill queries \1 "),
    (r"DELETE removes shapes", "quadrill shapes delete removes shapes"),
    (r"DELETE cancels the registration", "quadrill drop cancels the registration"),
    (r"POST /queries\?name=…", "quadrill register --name"),
    (r"POST /queries(?![/\w?])", "quadrill register"),
    (r"PUT with \?replace=true \(register --replace\)", "quadrill register --replace"),
    (r'PATCH \{"state": "running"\}', "quadrill resume"),
    (r"POST the text to /queries", "use quadrill register"),
    (r"POST it to /update", "use quadrill update"),
    (r"PUT /rules", "quadrill rules put"),
    (r"POST /mirror, or quadrill mirror", "quadrill mirror"),
    (r"POST /mirror", "quadrill mirror"),
    (r"GET /health/ready returns the progress; meanwhile", "Meanwhile"),
    (
        r"Use /streams/\{name\}, or /streams\?iri= with the stream's IRI",
        "Give the name or the IRI of a stream",
    ),
    (r"Send datasets to /store without a graph", "Load datasets without --graph"),
)
"""Expressions of HTTP requests in hints, each with the command that does the same."""
_TABLE = [(re.compile(request), command) for request, command in _REQUESTS]


def with_commands(text: str) -> str:
    """Return a server's text with a command in place of each HTTP request that a command can send."""
    for request, command in _TABLE:
        text = request.sub(command, text)
    return text
