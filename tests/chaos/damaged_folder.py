"""A data folder as a killed server leaves it, damaged in one place, and what is seen of it then."""

from __future__ import annotations

import gc
import io
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoxigraph import RdfFormat

from quadrill.app.describing.streams import describe_streams
from quadrill.continuous.clock import ManualClock
from quadrill.store.errors import GoneError, ReportedError
from quadrill.store.registry import PrefixRecord, StoredQueryRecord, TokenRecord
from tests.continuous.test_recovery import E, Life, P, comparable

START = 10_000


class DurableLife(Life):
    """A life whose journal syncs, as a server's does."""

    sync = "always"


def make_folder(folder: Path, *, closed: bool) -> None:
    """Run queries, pushes, updates, a checkpoint and more of each, then end as by a kill, or by a stop."""
    life = DurableLife(folder.with_name(folder.name + "-run"), ManualClock(START))
    for name in ("seen", "named", "closes", "made"):
        life.register(name)
    life.registry.prefixes.put(PrefixRecord("ex", E))
    life.registry.tokens.add(TokenRecord("a" * 64, "admin", "somebody", 1))
    life.registry.stored_queries.put(StoredQueryRecord("all", "SELECT * { ?s ?p ?o }", "every triple", 1))
    for number in range(40):
        _step(life, number)
        if number == 20:
            life.checkpoint()
            life.engine.queries.drop("closes")
            life.store.committer.checkpoint()
            life.register("counts")
    while not closed:
        try:
            shutil.copytree(life.folder, folder)
            break
        except shutil.Error:  # RocksDB has just put files together
            shutil.rmtree(folder)
    life.stop()
    if closed:
        shutil.copytree(life.folder, folder)
    shutil.rmtree(life.folder)


def _step(life: Life, number: int) -> None:
    life.clock.advance(7)
    life.push(1_000 + number * 400, *"abcd"[: 1 + number % 4])
    name = "abcd"[number % 4]
    if number % 3 == 0:
        graph = f"GRAPH :g{number % 5} {{ :a :b {number} }}"
        life.store.writer.update(P + f'INSERT DATA {{ :{name} :name "{number}" {graph} }}')
    if number % 7 == 6:
        life.store.writer.update(P + f"DELETE WHERE {{ :{name} :name ?n }}")


def seen_of(folder: Path) -> dict[str, Any]:
    """Everything that clients of a server over this folder could ask for.

    Raises:
        ReportedError, OSError, RuntimeError: it cannot be opened or read.
    """
    life = DurableLife(folder, ManualClock(START + 1_000_000))
    try:
        store, registry = life.store, life.registry
        assert life.engine.recovery is not None
        return {
            "told": life.engine.recovery.report["problem"]
            or life.engine.recovery.report["cut_bytes"]
            or None,
            "version": store.reader.version,
            "quads": dump_of(life),
            "count": store.reader.quad_count,
            "commits": commits_of(life),
            "registered": registry.queries.all(),
            "dropped": [name for name in ("closes", "seen") if registry.queries.was_dropped(name)],
            "streams": registry.streams.all(),
            "prefixes": registry.prefixes.all(),
            "tokens": registry.tokens.all(),
            "texts": registry.stored_queries.all(),
            "feeds": comparable(life.told()),
            "epochs": {
                name: life.engine.queries.feed(name).history.earliest_id
                for name in ("seen", "named", "made", "counts")
            },
            "answers": life.answers(),
            "seqs": {
                each["iri"]: (each["accepted"], each["last_seq"]) for each in describe_streams(life.engine)
            },
            "retained": {iri: len(kept) for iri, kept in life.engine.parts.streams.kept_now().items()},
            "next": life.push(60_000, "z"),
        }
    finally:
        life.stop()
        del life
        gc.collect()


def commits_of(life: Life) -> list[str]:
    """What `/changes` tells; nothing where the history begins later."""
    try:
        return [repr(commit) for commit in life.store.commits_after(0)]
    except GoneError:
        return []


def dump_of(life: Life) -> list[bytes]:
    """The quads of the store as sorted lines."""
    written = io.BytesIO()
    life.store.reader.dump(written, RdfFormat.N_QUADS)
    return sorted(written.getvalue().splitlines())


KINDS = ("bit", "bytes", "cut", "zeros", "swap", "gone")


@dataclass(frozen=True, slots=True)
class Case:
    """One damage to one file, chosen by a seed."""

    file: str
    what: str
    seed: int

    def copy_of(self, folder: Path, base: Path) -> Path:
        """A copy of a folder, in a folder of its own: a database that could not be closed holds its name."""
        return Path(shutil.copytree(folder, Path(tempfile.mkdtemp(dir=base)) / "data"))

    def damage(self, folder: Path) -> str:
        """Do it; says what was done."""
        path, chance = folder / self.file, random.Random(f"{self.file} {self.what} {self.seed}")
        data = bytearray(path.read_bytes())
        told = ""
        match self.what:
            case "bit":
                place = chance.randrange(len(data))
                data[place] ^= 1 << chance.randrange(8)
                told = f"at {place}"
            case "bytes":
                place = chance.randrange(len(data))
                for at in range(place, min(len(data), place + 16)):
                    data[at] = chance.randrange(256)
                told = f"at {place}"
            case "cut":
                place = chance.randrange(len(data))
                del data[place:]
                told = f"at {place}"
            case "zeros":
                place = chance.randrange(len(data))
                data[place : place + 512] = bytes(len(data[place : place + 512]))
                told = f"at {place}"
            case "swap":
                blocks = max(1, len(data) // 512)
                one, two = chance.randrange(blocks) * 512, chance.randrange(blocks) * 512
                data[one : one + 512], data[two : two + 512] = data[two : two + 512], data[one : one + 512]
                told = f"{one} and {two}"
            case "gone":
                path.unlink()
                return ""
        path.write_bytes(data)
        return told


def files_of(folder: Path) -> list[str]:
    """The files of a folder that have something in them."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    return [path.relative_to(folder).as_posix() for path in found]


def judge(folder: Path, base: Path, case: Case, expected: dict[str, Any]) -> str:
    """What becomes of a copy with one damage: ``same``, or ``refused``, ``told``, ``SILENT`` and how."""
    copy = case.copy_of(folder, base)
    file = copy / case.file
    try:
        case.damage(copy)
        before = file.read_bytes() if file.exists() else None
        seen = seen_of(copy)
    except (ReportedError, OSError, RuntimeError) as error:
        if before is not None and file.suffix != ".sst" and not file.name.endswith("-shm"):
            if not file.exists() or file.read_bytes() != before:
                return f"OVERWRITTEN: {error}"
        return f"refused: {error}"
    finally:
        shutil.rmtree(copy.parent, ignore_errors=True)
    other = [name for name in expected if name != "told" and seen[name] != expected[name]]
    if not other:
        return "same"
    if set(other) <= {"feeds", "epochs"} and all(
        expected["feeds"][name][-len(events) :] == events or not events
        for name, events in seen["feeds"].items()
    ):
        return "reset: the history of a feed is shorter, and who resumes before it is told"
    if seen["told"] is not None:
        return f"told: {seen['told']}: {', '.join(other)}"
    return f"SILENT: {', '.join(other)}"
