"""Reader of the Spark child process's results: Parquet files to rows of terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..algebra.nodes import Term
from ..rows import Solution
from .worker import terms_of


def rows_of(folder: Path, width: int) -> list[Solution]:
    """Read the rows of Parquet files with the columns c0, c1, ...: texts of terms, null for unbound.

    Spark's result files are read batch by batch and each text is parsed once, because a part may have
    millions of rows.

    Args:
        folder: the folder of the Parquet files.
        width: the number of columns; with 0 columns, only the number of rows matters.
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
    """Return the terms of a column; ``known`` caches the terms of texts, and new terms are added to it."""
    column = column.dictionary_encode()
    texts: list[str | None] = column.dictionary.to_pylist()
    known.update(terms_of({text for text in texts if text is not None and text not in known}))
    terms = [known[text] for text in texts]
    return [None if place is None else terms[place] for place in column.indices.to_pylist()]
