"""The records of shapes in the registry."""

from __future__ import annotations

from dataclasses import replace

from quadrill.store.registry import Registry, ShapesRecord


class ShapeRecords:
    """Reads and writes the records of shapes, which are only in memory without a registry.

    Attributes:
        registry: keeps the records over restarts; None keeps them in memory only.
    """

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry
        self._records: dict[str, ShapesRecord] = {}

    def all(self) -> list[ShapesRecord]:
        """Return all records, oldest first."""
        if self.registry is not None:
            self._records = {record.name: record for record in self.registry.shapes.all()}
        return list(self._records.values())

    def current(self) -> list[ShapesRecord]:
        """Return all records as they are in memory, without reading the registry, oldest first."""
        return list(self._records.values())

    def get(self, name: str) -> ShapesRecord | None:
        """Return the record of shapes; None if there is none."""
        return self._records.get(name)

    def _write(self, record: ShapesRecord) -> None:
        if self.registry is not None:
            self.registry.shapes.put(record)

    def put(self, record: ShapesRecord) -> None:
        """Write a record."""
        self._write(record)
        self._records = {**self._records, record.name: record}

    def fail(self, name: str, error: str) -> None:
        """Record in the registry that shapes have failed."""
        self._write(replace(self._records[name], state="failed", error=error))

    def restore(self, name: str) -> None:
        """Undo `fail` after a commit that was not made."""
        self._write(self._records[name])

    def remove(self, name: str) -> None:
        """Remove a record; do nothing if there is none."""
        if self.registry is not None and name in self._records:
            self.registry.shapes.remove(name)
        self._records = {other: each for other, each in self._records.items() if other != name}
