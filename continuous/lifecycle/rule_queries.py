"""Queries whose windows include consequences, when their rule sets are replaced without a commit."""

from __future__ import annotations

from functools import partial

from ..rules.definition import RuleSetDefinition
from ..scheduler.task_kinds import CallTask
from .parts import EngineParts


def follow_rule_sets(parts: EngineParts, name: str | None = None) -> None:
    """By tasks, let queries use the present definition of the rule set with a name, or of all sets.

    Most replacements change the graph of the set, and queries follow them with this commit.
    """
    if not parts.tasks.open:
        return
    parts.tasks.follow_commits()
    for each, definition in parts.statics.rules.outdated(name).items():
        members = None if definition is None else definition.members()
        task = CallTask(partial(redefine, parts, each, definition))
        parts.tasks.submit(task, "redefine", set=each, definition=members)
    parts.sequencer.drain()


def redefine(parts: EngineParts, name: str, definition: RuleSetDefinition | None) -> None:
    """Replace a rule set for the queries that name it, and evaluate them; called in the engine's thread."""
    parts.statics.rules.redefine(name, definition)
    parts.router.changes.tables_advanced(parts.statics.take_moved())
