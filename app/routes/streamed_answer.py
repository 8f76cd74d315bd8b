"""An answer of any size as a response of Flask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Response

from ..evaluation.answer import HttpAnswer


class StreamedAnswer(Response):
    """An `HttpAnswer` as a response of Flask; headers set on this object go out with whatever is answered."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(b"")
        self.headers.clear()
        for name, value in answer.headers.items():
            self.headers[name] = value
        answer.headers = self.headers
        self._answer = answer

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application."""
        return self._answer.send(start_response)
