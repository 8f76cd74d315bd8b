"""Long-running pieces of work: what was asked and how far each is."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ..errors import ConflictError, NotFoundError
from .models import JobRow
from .records import JobRecord
from .session import Database


class Jobs:
    """The part of the registry that keeps jobs."""

    _database: Database

    def add_job(self, record: JobRecord) -> JobRecord:
        """Keep a new job.

        Raises: ConflictError when its id is taken.
        """
        with self._database.write() as session:
            if _find(session, record.id) is not None:
                raise ConflictError(f"there is a job {record.id} already", code="job-exists")
            session.add(JobRow(**asdict(record)))
            return record

    def get_job(self, job_id: str) -> JobRecord | None:
        """The job of that id, None when there is none."""
        with self._database.read() as session:
            row = _find(session, job_id)
            return None if row is None else _record(row)

    def list_jobs(self) -> list[JobRecord]:
        """All jobs in the order in which they were asked for."""
        with self._database.read() as session:
            return [_record(row) for row in session.scalars(select(JobRow).order_by(JobRow.position))]

    def update_job(self, job_id: str, **fields: Any) -> JobRecord:
        """Change some fields (not the id) of a job; gives the new record.

        Raises:
            NotFoundError: no such job.
            TypeError: a field that a record does not have.
        """
        if "id" in fields:
            raise TypeError("a job keeps its id")
        with self._database.write() as session:
            row = _find(session, job_id)
            if row is None:
                raise _unknown(job_id)
            changed = replace(_record(row), **fields)
            for field, value in asdict(changed).items():
                setattr(row, field, value)
            return changed

    def remove_job(self, job_id: str) -> None:
        """Forget a job.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = _find(session, job_id)
            if row is None:
                raise _unknown(job_id)
            session.delete(row)


def _find(session: Session, job_id: str) -> JobRow | None:
    return session.scalars(select(JobRow).where(JobRow.id == job_id)).one_or_none()


def _record(row: JobRow) -> JobRecord:
    return JobRecord(
        id=row.id,
        kind=row.kind,
        state=row.state,  # type: ignore[arg-type]  # only add and update write it, from a JobState
        request=row.request,
        progress=row.progress,
        error=row.error,
        created_ms=row.created_ms,
        updated_ms=row.updated_ms,
    )


def _unknown(job_id: str) -> NotFoundError:
    return NotFoundError(f"there is no job {job_id}", code="unknown-job")
