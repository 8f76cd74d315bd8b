"""The checkpoint of a job: the work order, the plans and commits of batches, and the states of groups.

    job.json            what a restart compares with its own command
    00000007.plan       what batch 7 reads, written before the batch
    00000007.commit     what is known after batch 7; the newest commit is the state of the job
    states/             states of groups, each file written by one task

A batch whose plan exists without a commit runs again, with the same input, and gives the same events.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from quadrill.store.errors import ReportedError

FORMAT = 1
_KEPT = 2
"""Number of the newest commits that stay in the folder."""
_NAMES = {
    "text": "the query text",
    "options": "the options of the registration",
    "sources": "the streams and their sources",
    "static": "the static files",
    "groups": "--key-groups",
    "self_contained": "--self-contained",
    "sink": "--sink",
    "base_iri": "the setting base_iri",
    "streams": "the streams and their sources",
}


class CheckpointError(ReportedError):
    """Error that a checkpoint belongs to another job, or cannot be used."""

    code = "checkpoint"


class JobCheckpoint:
    """The folder of one job; only one process at a time uses it.

    Attributes:
        folder: the folder of the checkpoint.
        states: the folder of the groups' states.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.states = self.folder / "states"
        self._lock: IO[str] | None = None

    def check(self, job: Mapping[str, Any]) -> None:
        """Compare the checkpoint, if it exists, with the members of this job; nothing is written.

        Raises:
            CheckpointError: the checkpoint is of another job.
        """
        known = _read(self.folder / "job.json")
        if known is not None:
            self._compare(known, job)
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise CheckpointError(f"the folder {self.folder} is not empty and is no checkpoint of a job")

    def open(self, job: Mapping[str, Any]) -> None:
        """Begin a new checkpoint, or use the one that exists.

        Raises:
            CheckpointError: the checkpoint is of another job, or another process uses it.
        """
        self.check(job)
        try:
            self.states.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise CheckpointError(f"another process uses the checkpoint {self.folder}") from None
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {self.folder} cannot be written: {error.strerror}"
            ) from error
        self._compare_again(job)

    def _compare_again(self, job: Mapping[str, Any]) -> None:
        """Write the members of a new job; another process may have begun one since the check."""
        file = self.folder / "job.json"
        known = _read(file)
        if known is None:
            _write(file, {"format": FORMAT, **job})
        else:
            self._compare(known, job)

    def _compare(self, known: Mapping[str, Any], job: Mapping[str, Any]) -> None:
        if known.get("format") != FORMAT:
            raise CheckpointError(f"the checkpoint {self.folder} has another format")
        for member, value in json.loads(json.dumps(job)).items():
            if known.get(member) != value:
                name = _NAMES.get(member, member)
                raise CheckpointError(
                    f"{name} differs from the checkpoint {self.folder}: give the same command or a new folder"
                )

    def close(self) -> None:
        """Let another process use the checkpoint."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- batches ----------------------------------------------------------------------------------

    def newest_commit(self) -> dict[str, Any] | None:
        """Return the newest commit; None before the first."""
        commits = sorted(self.folder.glob("*.commit"))
        return _read(commits[-1]) if commits else None

    def plan_of(self, batch: int) -> dict[str, Any] | None:
        """Return the plan of a batch that did not commit; None if there is none."""
        return _read(self.folder / f"{batch:08d}.plan")

    def plan(self, batch: int, members: Mapping[str, Any]) -> None:
        """Write the plan of a batch durably, before the batch runs."""
        _write(self.folder / f"{batch:08d}.plan", members)

    def commit(self, batch: int, members: Mapping[str, Any], used: Iterable[str]) -> None:
        """Commit a batch durably, and remove the states that no group uses any more.

        Args:
            batch: the number of the batch.
            members: the commit.
            used: the names of the files in `states` to which the commit refers.
        """
        _write(self.folder / f"{batch:08d}.commit", members)
        kept = set(used)
        for each in self.states.iterdir():
            if each.name not in kept:
                each.unlink(missing_ok=True)
        for pattern in ("*.plan", "*.commit"):
            for old in sorted(self.folder.glob(pattern))[:-_KEPT]:
                old.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the file {file} of the checkpoint cannot be read: {error}") from error
    return found


def _write(file: Path, members: Mapping[str, Any]) -> None:
    """Write a file that appears as a whole, durably."""
    draft = file.with_name(f".{file.name}")
    with draft.open("w", encoding="utf-8") as out:
        json.dump(members, out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(draft, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
