"""Checks of a text before Oxigraph gets it: length, nesting, and calls that would reach the network.

Oxigraph's parser and evaluator recurse: a text of 10 KB with 2,300 nested braces overflows a thread's 8 MB
stack and ends the process, and so do long chains of UNION, OPTIONAL or ``||`` (they nest to one side). So the
height of a text is measured first; over `TextLimits.inline_height` it is evaluated in a thread with a big
stack, over `TextLimits.height` it is refused. SERVICE reaches any host by default, so it is found here by its
token. The tokens are ours and the grammar is Oxigraph's; where the two may read a text differently
(`tokens.is_doubtful`), the worse reading counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import LimitError, NetworkRefusedError
from ..hosts import AllowedHosts
from .calls import CallFinder, may_call
from .height import Height, too_high
from .tokens import Token, is_doubtful, tokens

_STRUCTURE = "{([.;,|&+-*/"


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits on one query or update text.

    Attributes:
        characters: length of the text.
        height: nesting, chains of operators and group members counted in.
        inline_height: up to here a text is evaluated in the calling thread; the smallest texts that overflow
            an 8 MB stack are above 2,000.
    """

    characters: int = 128 * 1024 * 1024
    height: int = 10_000
    inline_height: int = 1_000


@dataclass(frozen=True, slots=True)
class TextFacts:
    """The findings of the guard about a text.

    Attributes:
        height: nesting; 0 when the text is too short to matter.
        services: the IRI tokens that SERVICE names.
    """

    height: int
    services: tuple[str, ...]


_SHORT = TextFacts(0, ())


def check_length(text: str, limits: TextLimits) -> None:
    """Refuse a text that is too long.

    Raises:
        LimitError: it is.
    """
    if len(text) > limits.characters:
        raise LimitError(
            f"the text has {len(text):,} characters, the limit is {limits.characters:,}",
            hint="send large data as RDF to the graph store, not inside an update",
        )


def inspect_text(text: str, limits: TextLimits, found: Iterable[Token] | None = None) -> TextFacts:
    """Measure a query or update text; ``found`` are its tokens where they are known already.

    Raises:
        LimitError: the text is too long or nests too deeply.
        UnsupportedError: SERVICE with a variable; the host could not be checked.
        NetworkRefusedError: the text may hide a SERVICE or LOAD from this check.
    """
    calls = may_call(text)
    # Each step of height needs a character, so a short text needs no scan unless it may reach the network.
    if not calls and len(text) <= limits.inline_height and len(text) <= limits.height <= limits.characters:
        return _SHORT
    check_length(text, limits)
    height = Height(text, limits.height)
    finder = CallFinder(text)
    previous: Token | None = None
    doubtful = False
    for token in tokens(text) if found is None else found:
        height.take(token)
        if calls:
            finder.take(token)
        doubtful = doubtful or is_doubtful(text, token, previous)
        previous = token
    measured = height.measured()
    if doubtful:
        if calls:
            finder.require_nothing_hidden()
        if sum(map(text.count, _STRUCTURE)) > limits.height:
            raise too_high(text, limits.height, 0)
        measured = max(measured, min(len(text), limits.height))
    return TextFacts(measured, tuple(finder.services))


def check_services(facts: TextFacts, hosts: AllowedHosts, resolve: Callable[[str], str]) -> None:
    """Refuse a text whose SERVICE calls reach other hosts than those allowed.

    Args:
        facts: what `inspect_text` found.
        hosts: the allowed hosts.
        resolve: IRI token to absolute IRI (prefixes and base applied).

    Raises:
        NetworkRefusedError: a host is not allowed.
    """
    for token in facts.services:
        if not hosts:
            raise NetworkRefusedError(
                f"SERVICE {token} is refused: no host is allowed",
                hint="an administrator can allow the host in the settings",
            )
        hosts.require(resolve(token), "SERVICE")
