# ruff: noqa: D102  # each method is named for the grammar rule whose node it makes
"""Grammar rules of windows and durations to syntax nodes."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s
from .positions import at


def _number(token: Token) -> s.Number:
    return s.Number(str(token), at(token))


@v_args(inline=True)
class WindowRules(Transformer[Token, s.Unit]):
    """The rules of what stands in the brackets of a window."""

    # --- windows

    def window(self, bracket: Token, kind: dict[str, Any], *options: dict[str, Any]) -> s.WindowText:
        members = dict(kind)
        for option in options:
            members.update(option)
        return s.WindowText(at=at(bracket), **members)

    def window_now(self, word: Token) -> dict[str, Any]:
        return {"kind": "now"}

    def window_all(self, word: Token) -> dict[str, Any]:
        return {"kind": "all"}

    def window_triples(self, word: Token, count: Token) -> dict[str, Any]:
        return {"kind": "triples", "count": _number(count)}

    def window_batch(self, word: Token, triples: Token, count: Token) -> dict[str, Any]:
        return {"kind": "batch", "count": _number(count)}

    def window_elements(
        self, word: Token, count: Token, step: Token | None, number: Token | None
    ) -> dict[str, Any]:
        step_count = None if number is None else _number(number)
        return {"kind": "elements", "count": _number(count), "count_step": step_count}

    def window_range(self, word: Token, width: s.DurationText, step: Any) -> dict[str, Any]:
        kind = "sliding" if word.upper() == "SLIDING" else "range"
        return {"kind": kind, "width": width, **(step or {})}

    def window_tumbling(self, word: Token, width: s.DurationText) -> dict[str, Any]:
        return {"kind": "range", "width": width, "tumbling": True}

    def window_past(self, bounds: Token) -> dict[str, Any]:
        return {"kind": "past"}

    def step_of(self, word: Token, step: s.DurationText) -> dict[str, Any]:
        return {"step": step}

    def step_tumbling(self, word: Token) -> dict[str, Any]:
        return {"tumbling": True}

    def lateness(self, word: Token, duration: s.DurationText) -> dict[str, Any]:
        return {"lateness": duration}

    def window_option(self, starting: s.InstantText) -> dict[str, Any]:
        return {"starting": starting}

    def report(self, word: Token, *values: Token) -> dict[str, Any]:
        return {"report": " ".join(value.upper() for value in values)}

    def tick(self, word: Token, value: Token) -> dict[str, Any]:
        return {"tick": value.upper()}

    def starting_at(self, word: Token, value: Any, datatype: Any) -> s.InstantText:
        instant = _number(value) if isinstance(value, Token) else value
        return s.InstantText(instant, instant.at)

    def duration_of_parts(self, *parts: tuple[tuple[str, str, int, bool], ...]) -> s.DurationText:
        pairs = tuple((number, unit) for part in parts for number, unit, _, _ in part)
        return s.DurationText(pairs, parts[0][0][2], any(words for part in parts for _, _, _, words in part))

    def duration_part(
        self, token: Token, unit: Token | None = None
    ) -> tuple[tuple[str, str, int, bool], ...]:
        if unit is not None:
            return ((str(token), unit.lower(), at(token), True),)
        return ((str(token).lower(), "compact", at(token), False),)

    def duration_of_token(self, token: Token) -> s.DurationText:
        return s.DurationText(((str(token), ""),), at(token))

    def duration_of_string(self, string: s.StringToken, datatype: Any) -> s.DurationText:
        return s.DurationText(((string.text[1:-1], ""),), string.at)
