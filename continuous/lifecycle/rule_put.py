"""One PUT of a rule set, from its acceptance to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..rules.definition import RuleSetDefinition


@dataclass(slots=True)
class PutProgress:
    """The progress of a PUT.

    Attributes:
        inferred: number of triples that it has inferred so far.
        violations: number of violations that its commit added to shapes with mode warn.
    """

    inferred: int = 0
    violations: int = 0


@dataclass(slots=True)
class RulePut:
    """One PUT of a rule set that was accepted and is not complete.

    Attributes:
        name: the name of the set.
        created: True if the set is new.
        changed: False if the set is registered with the same definition; `run` then does nothing.
        run: computes the inferred triples and makes the set visible; raises the errors of `RuleService.put`.
        definition: the definition of the set.
        progress: the progress of `run`.
    """

    name: str
    created: bool
    changed: bool
    run: Callable[[], None]
    definition: RuleSetDefinition
    progress: PutProgress = field(default_factory=PutProgress)
