"""Which queries differ in constants alone, and the groups that they form."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from quadrill.store.errors import QuadrillError

from .group import Failed, TemplateGroup, evaluator_of

if TYPE_CHECKING:
    from ..queries.running import RunningQuery

log = logging.getLogger("quadrill.continuous")


class _Template:
    """The queries of one template: those alone, in the order of their beginnings, and the groups."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.alone: dict[RunningQuery, None] = {}
        self.groups: list[TemplateGroup] = []
        # Its plan failed, or answers otherwise: everybody stays alone.
        self.banned = False

    @property
    def may_join(self) -> bool:
        """True when some query may join another."""
        return not self.banned and bool(self.alone) and (len(self.alone) > 1 or bool(self.groups))


class TemplatePool:
    """Where queries of one engine meet that can be evaluated together. Used in the loop only.

    A query begins alone. When it stands where others of its template stand (at the same instant, over the
    same shared windows, with nothing in hand) it joins them; from then on all must go on alike.
    """

    def __init__(
        self,
        failed: Failed,
        when_shown: Callable[[Callable[[], None]], None],
        *,
        enabled: bool = True,
    ) -> None:
        """Make an empty pool.

        Args:
            failed: told about a member that failed.
            when_shown: does something when what was published is durable, see `Sequencer.when_shown`.
            enabled: False lets every query be evaluated alone.
        """
        self._failed = failed
        self._when_shown = when_shown
        self._enabled = enabled
        self._templates: dict[Hashable, _Template] = {}
        # By stream: where some query may join another, and the groups that read it.
        self._open: dict[str, dict[_Template, None]] = {}
        self._groups: dict[str, dict[TemplateGroup, None]] = {}
        self._parted: list[RunningQuery] = []

    def groups(self, stream: str) -> Collection[TemplateGroup]:
        """The groups that read a stream. May be called in any thread."""
        return list(self._groups.get(stream, ()))

    # --- who is there -----------------------------------------------------------------------------

    def enter(self, running: RunningQuery) -> None:
        """A query that shares windows gets inputs by itself from now on."""
        key = running.template if self._enabled else None
        if key is None:
            return
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = _Template(running.timeline.streams[0])
        template.alone[running] = None
        self._look(template)

    def leave(self, running: RunningQuery) -> None:
        """A query ends, or is not to be evaluated with others any more."""
        membership = running.membership
        if membership is not None:
            group = membership.group
            group.discard(running)
            self.gather(group)
        key = running.template
        template = self._templates.get(key) if key is not None else None
        if template is not None and running in template.alone:
            del template.alone[running]
            self._look(template)
            self._drop(key, template)

    def part(self, running: RunningQuery) -> None:
        """A query goes on alone if it is a member, and may join again."""
        membership = running.membership
        if membership is not None:
            membership.group.part(running)
            self.gather(membership.group)

    def _tidy(self, group: TemplateGroup) -> None:
        """Forget a group without members."""
        if group.members:
            return
        if not group.broken:
            group.end()
        self._remove(group)

    def _remove(self, group: TemplateGroup) -> None:
        groups = self._groups.get(group.stream, {})
        groups.pop(group, None)
        for key, template in list(self._templates.items()):
            if group in template.groups:
                template.groups.remove(group)
                template.banned = template.banned or group.broken
                self._look(template)
                self._drop(key, template)

    def _drop(self, key: Hashable, template: _Template) -> None:
        """Forget a template that nobody has."""
        if not template.alone and not template.groups and not template.banned:
            self._templates.pop(key, None)

    def _look(self, template: _Template) -> None:
        """See whether somebody may join."""
        waiting = self._open.setdefault(template.stream, {})
        if template.may_join:
            waiting[template] = None
        else:
            waiting.pop(template, None)

    # --- what happens -----------------------------------------------------------------------------

    def gather(self, group: TemplateGroup) -> None:
        """Queries that had to leave a group get inputs by themselves from now on, see `take_parted`."""
        parted, group.parted = group.parted, []
        for running in parted:
            self.enter(running)
        self._parted += parted
        self._tidy(group)

    def take_parted(self) -> list[RunningQuery]:
        """The queries that have left groups since the last call."""
        parted, self._parted = self._parted, []
        return parted

    def meet(self, stream: str) -> bool:
        """After an input of a stream: queries join those that they have become like; True when some did."""
        waiting = self._open.get(stream)
        return waiting is not None and any([self._join(each) for each in list(waiting)])

    def _join(self, template: _Template) -> bool:
        ready = [running for running in template.alone if running.can_join]
        joined = False
        for group in list(template.groups):
            fitting = [running for running in ready if group.fits(running)]
            if fitting:
                joined = self._add(template, group, fitting) or joined
                ready = [running for running in ready if running not in set(fitting)]
        for like in _alike(ready):
            joined = self._form(template, like) or joined
        self._look(template)
        return joined

    def _form(self, template: _Template, members: Sequence[RunningQuery]) -> bool:
        """A new group of queries that stand where the first of them stands."""
        group = TemplateGroup(members[0], self._failed, self._when_shown)
        try:
            group.plan(members, _labelled(members))
        except QuadrillError as error:
            log.info("queries that differ in constants stay alone: %s", error.message)
        except Exception:
            log.exception("queries that differ in constants stay alone")
        else:
            template.groups.append(group)
            self._groups.setdefault(group.stream, {})[group] = None
            return self._add(template, group, members)
        template.banned = True
        return False

    def _add(self, template: _Template, group: TemplateGroup, members: Sequence[RunningQuery]) -> bool:
        try:
            added = group.add(members)
        except Exception:
            log.exception("queries that differ in constants stay alone")
            group.dissolve()
            added = False
        if not added:
            template.banned = True
            self.gather(group)
            return False
        for running in members:
            del template.alone[running]
        return True


def _alike(ready: Sequence[RunningQuery]) -> Iterator[list[RunningQuery]]:
    """Queries that stand at the same place and have what may not differ in common, two at least."""
    places: dict[object, list[RunningQuery]] = {}
    for running in ready:
        place = (running.timeline.shared_windows(), *_in_common(running))
        places.setdefault(place, []).append(running)
    for found in places.values():
        like = [running for running in found if running.timeline.is_like(found[0].timeline)]
        if len(like) > 1:
            yield like


def _in_common(running: RunningQuery) -> Iterator[tuple[object, object]]:
    """The static parts whose rows may not differ between members, and their columns."""
    evaluator = evaluator_of(running)
    for part, table in zip(evaluator.statics.parts, evaluator.statics.tables, strict=True):
        if part.name not in evaluator.skeleton.tables:
            yield table, part.vars


def _labelled(members: Sequence[RunningQuery]) -> set[int]:
    """The places of static parts that are not the same for all."""
    first, *others = (evaluator_of(running).statics for running in members)
    return {
        place
        for place, table in enumerate(first.tables)
        if any(
            other.tables[place] is not table or other.parts[place].vars != first.parts[place].vars
            for other in others
        )
    }
