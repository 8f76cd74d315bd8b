"""Nothing acknowledged is lost and feeds are those of an undisturbed run, whatever the disk does."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.streams import describe_streams
from quadrill.continuous.clock import ManualClock
from quadrill.store.errors import ConflictError, NotFoundError, ReportedError, StoreUnwritableError
from quadrill.store.logs.journal import Journal
from tests.continuous.faulty_disk import FaultyDisk
from tests.continuous.test_recovery import E, Life, P, comparable, scenario

from .engines import tick


class StormyLife(Life):
    """A life on a faulty disk; `power_failure` goes on over what such a disk has kept."""

    def __init__(self, folder: Path, clock: ManualClock, disk: FaultyDisk | None, **settings: Any) -> None:
        self.disk = disk
        original = Journal.open
        if disk is not None:
            # Every record is synced before it is acknowledged, and files are short.
            def opened(folder: Path, **options: Any) -> Journal:
                return original(folder, **{**options, "sync": "always", "segment_bytes": 1500})

            patch = pytest.MonkeyPatch()
            patch.setattr(Journal, "open", opened)
            with self.good_disk():
                super().__init__(folder, clock, **settings)
            patch.undo()
        else:
            super().__init__(folder, clock, **settings)

    @contextlib.contextmanager
    def good_disk(self) -> Iterator[None]:
        """The disk does not fail meanwhile."""
        if self.disk is None:
            yield
            return
        chance, self.disk.chance = self.disk.chance, 0.0
        try:
            yield
        finally:
            self.disk.chance = chance

    def power_failure(self) -> StormyLife:
        assert self.disk is not None
        copy = self.folder.with_name(self.folder.name + "x")
        self.store.backup(copy)
        shutil.copytree(self.folder / "engine", copy / "engine")
        for file in self.folder.glob("registry.sqlite*"):
            shutil.copy(file, copy)
        for file in (self.folder / "engine" / "input").glob("*.log"):
            self.disk.lose_power(file, copy / "engine" / "input" / file.name)
        with self.good_disk():
            self.stop()
        return StormyLife(copy, self.clock, self.disk, **self.settings)


def persist(life: StormyLife, step: tuple[Any, ...], key: str) -> None:
    """One step, again until it is acknowledged, as a client with an Idempotency-Key does it."""
    life.clock.advance(7)
    for _ in range(200):
        try:
            match step:
                case ("push", at, names):
                    life.push(at, *names, idempotency_key=key)
                case ("update", text):
                    life.store.writer.update(P + text)
                case ("register", name):
                    life.register(name)
                case ("drop", name):
                    life.engine.queries.drop(name)
                case ("pause", name):
                    life.engine.queries.patch(name, {"state": "paused"})
                case ("resume", name):
                    life.engine.queries.patch(name, {"state": "running"})
                case ("heartbeat", at):
                    life.engine.streams.heartbeat(E + "s", at)
                case ("replay", name, start):
                    # Twice would be two epochs: it is asked for while the disk works.
                    with life.good_disk():
                        tick(life.engine)
                        life.engine.queries.replay(name, start)
                case ("checkpoint",):
                    life.checkpoint()
            return
        except StoreUnwritableError:
            with contextlib.suppress(StoreUnwritableError):
                tick(life.engine)
        except (NotFoundError, ConflictError):
            return
        except ReportedError as error:
            assert error.code in ("future", "late"), error
            return
    raise AssertionError(f"{step} was refused two hundred times")


def run(folder: Path, seed: int, length: int, disk: FaultyDisk | None) -> tuple[Any, Any, Any]:
    life = StormyLife(folder, ManualClock(10_000), disk, idle_timeout_ms=0)
    failures = 0
    for place, step in enumerate(scenario(seed, length)):
        persist(life, step, f"{seed}-{place}")
        if disk is not None and place % 12 == 11:
            before = {name: comparable({name: events})[name] for name, events in life.told().items()}
            life = life.power_failure()
            failures += 1
            after = comparable(life.told())
            for name, events in before.items():
                assert after[name][: len(events)] == events, f"seed {seed}, step {place}: {name}"
    if disk is not None:
        disk.chance = 0.0
        tick(life.engine)
    result = comparable(life.told()), life.answers(), seqs(life)
    life.stop()
    return result


def seqs(life: Life) -> dict[str, tuple[int, int]]:
    return {each["iri"]: (each["accepted"], each["last_seq"]) for each in describe_streams(life.engine)}


def check(tmp_path: Path, patch: pytest.MonkeyPatch, seed: int, chance: float, length: int) -> FaultyDisk:
    for name in ("calm", "stormy"):
        (tmp_path / name).mkdir()
    calm = run(tmp_path / "calm" / "d", seed, length, None)
    disk = FaultyDisk(seed, chance)
    disk.install(patch)
    print(f"seed {seed}, chance of a fault {chance}")
    stormy = run(tmp_path / "stormy" / "d", seed, length, disk)
    print(dict(disk.faults))
    assert stormy[0] == calm[0], f"seed {seed}: feeds"
    assert stormy[1] == calm[1], f"seed {seed}: answers"
    assert stormy[2] == calm[2], f"seed {seed}: elements and seqs"
    return disk


@pytest.mark.parametrize("seed", range(3))
def test_a_faulty_disk_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    disk = check(tmp_path, monkeypatch, seed, 0.2, 48)
    assert sum(disk.faults.values()) > 10, "the disk did fail"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_faulty_disks_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    check(tmp_path, monkeypatch, seed, (0.02, 0.1, 0.3)[seed % 3], 80)
