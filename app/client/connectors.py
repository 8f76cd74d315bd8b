"""The sources and the sinks of a server: declared, looked at, started, stopped, dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from . import calls
from .calls import Call

Role: TypeAlias = Literal["sources", "sinks"]


class Connectors:
    """The sources of a server, or its sinks; what they are is a description, a dict."""

    def __init__(self, role: Role, answer: Callable[[Call], dict[str, Any]]) -> None:
        """``answer`` sends a request and gives the JSON object that is answered, {} for none."""
        self._role: Role = role
        self._answer = answer

    def all(self) -> list[dict[str, Any]]:
        """The descriptions of all."""
        return list(self._answer(Call("GET", self._role))[self._role])

    def describe(self, name: str) -> dict[str, Any]:
        """The description of one: its declaration, state, position, rate, error."""
        return self._answer(calls.connector("GET", self._role, name))

    def declare(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare one or change it; it runs. Its description. A member ``from_`` stands for ``from``."""
        return self._answer(calls.connector("PUT", self._role, name, json=calls.members(members)))

    def start(self, name: str) -> dict[str, Any]:
        """Let one run, also after it has failed."""
        return self._answer(calls.connector("POST", self._role, name, ":start"))

    def stop(self, name: str) -> dict[str, Any]:
        """Stop one, also over restarts."""
        return self._answer(calls.connector("POST", self._role, name, ":stop"))

    def drop(self, name: str) -> None:
        """Stop one and forget it."""
        self._answer(calls.connector("DELETE", self._role, name))

    def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """What a source could not read, or a sink not deliver, with the reason."""
        return list(self._answer(calls.connector("GET", self._role, name, "/dead-letters"))["letters"])


class AsyncConnectors:
    """The same for programs with an event loop."""

    def __init__(self, role: Role, answer: Callable[[Call], Awaitable[dict[str, Any]]]) -> None:
        """``answer`` sends a request and gives the JSON object that is answered, {} for none."""
        self._role: Role = role
        self._answer = answer

    async def all(self) -> list[dict[str, Any]]:
        """The descriptions of all."""
        return list((await self._answer(Call("GET", self._role)))[self._role])

    async def describe(self, name: str) -> dict[str, Any]:
        """The description of one: its declaration, state, position, rate, error."""
        return await self._answer(calls.connector("GET", self._role, name))

    async def declare(self, name: str, **members: Any) -> dict[str, Any]:
        """Declare one or change it; it runs. Its description. A member ``from_`` stands for ``from``."""
        return await self._answer(calls.connector("PUT", self._role, name, json=calls.members(members)))

    async def start(self, name: str) -> dict[str, Any]:
        """Let one run, also after it has failed."""
        return await self._answer(calls.connector("POST", self._role, name, ":start"))

    async def stop(self, name: str) -> dict[str, Any]:
        """Stop one, also over restarts."""
        return await self._answer(calls.connector("POST", self._role, name, ":stop"))

    async def drop(self, name: str) -> None:
        """Stop one and forget it."""
        await self._answer(calls.connector("DELETE", self._role, name))

    async def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """What a source could not read, or a sink not deliver, with the reason."""
        return list(
            (await self._answer(calls.connector("GET", self._role, name, "/dead-letters")))["letters"]
        )
