"""Reading of the results of the child process: rows of terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..algebra.nodes import Term
from ..rows import Solution
from .worker import terms_of


def rows_of(folder: Path, width: int) -> list[Solution]:
    """The rows of a folder of Parquet files with the columns c0, c1, ...: texts of terms, null for unbound.

    They are read batch by batch, and each text becomes a term once: a part may have many millions of rows.

    Args:
        folder: the Parquet files.
        width: how many columns a row has; with none, only the number of rows counts.
    """
    import pyarrow.parquet as pq

    names = [f"c{place}" for place in range(width)]
    known: dict[str | None, Term | None] = {None: None}
    rows: list[Solution] = []
    for fragment in pq.ParquetDataset(folder, read_dictionary=names).fragments:
        for batch in fragment.to_batches():
            if names:
                rows.extend(zip(*(_terms(batch.column(name), known) for name in names), strict=True))
            else:
                rows.extend([()] * batch.num_rows)
    return rows


def _terms(column: Any, known: dict[str | None, Term | None]) -> list[Term | None]:
    """The terms of a column; ``known`` has those met before, and takes the others."""
    column = column.dictionary_encode()
    texts: list[str | None] = column.dictionary.to_pylist()
    known.update(terms_of({text for text in texts if text is not None and text not in known}))
    terms = [known[text] for text in texts]
    return [None if place is None else terms[place] for place in column.indices.to_pylist()]
