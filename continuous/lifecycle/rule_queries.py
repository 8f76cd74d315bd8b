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
    outdated = parts.statics.rules.outdated(name)
    version = parts.store.reader.version
    parts.tasks.follow_commits()
    for each, definition in outdated.items():
        members = None if definition is None else definition.members()
        task = CallTask(partial(redefine, parts, each, version, definition))
        parts.tasks.submit(task, "redefine", set=each, version=version, definition=members)
    parts.sequencer.drain()


def redefine(parts: EngineParts, name: str, version: int, definition: RuleSetDefinition | None) -> None:
    """Replace a rule set for queries that name it, and evaluate the queries; runs in the engine's thread.

    The tasks of all commits up to ``version`` have run, and later commits know the new rule set.
    """
    parts.statics.rules.redefine(name, version, definition)
    parts.router.changes.tables_advanced(parts.statics.take_moved())
