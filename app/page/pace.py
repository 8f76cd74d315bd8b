"""Speed of the demo's replay, which the view of the demo changes while the replay runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..http.errors import HttpError

SLOWEST, FASTEST = 1.0, 100_000.0
"""Bounds of a speed that the view of the demo may set, in seconds of event time per second."""


@dataclass(slots=True)
class Pace:
    """The pace of a replay, shared by the thread that replays and the view of the demo.

    Attributes:
        speed: seconds of event time per second of the wall clock, while the replay is not paused.
        paused: True while the replay stands still.
    """

    speed: float
    paused: bool = False

    @property
    def present(self) -> float:
        """Seconds of event time per second of the wall clock at present; 0 while the replay is paused."""
        return 0.0 if self.paused else self.speed

    def change(self, members: dict[str, Any]) -> None:
        """Set ``speed`` or ``paused`` or both from a JSON object.

        Raises: HttpError 400 for an unknown member or a value out of range.
        """
        speed, paused = members.get("speed", self.speed), members.get("paused", self.paused)
        if unknown := members.keys() - {"speed", "paused"}:
            raise HttpError(400, f"the demo has no {sorted(unknown)[0]}", code="member")
        if not isinstance(paused, bool):
            raise HttpError(400, f"paused is {paused!r}, it must be true or false", code="member")
        number = isinstance(speed, (int, float)) and not isinstance(speed, bool)
        if not number or not SLOWEST <= speed <= FASTEST:
            bounds = f"a number from {SLOWEST:.0f} to {FASTEST:,.0f}"
            raise HttpError(400, f"speed is {speed!r}, it must be {bounds}", code="member")
        self.speed, self.paused = float(speed), paused

    def to_json(self) -> dict[str, Any]:
        """Return speed and state of the replay as a JSON object."""
        return {"speed": self.speed, "paused": self.paused}
