"""Decoding of pushed records: the stream's mapping turns each record into elements.

Records for which the mapping gives no triples are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

from quadrill.store.documents.element_terms import relabel_blank_nodes
from quadrill.store.documents.statements import lines_of
from quadrill.store.documents.subject_columns import as_columns
from quadrill.store.errors import InputError, LimitError, MediaTypeError, ReportedError
from quadrill.store.formats import split_media_type
from quadrill.store.pushes.client import ClientLeftError
from quadrill.store.pushes.decode import (
    DecodedElement,
    DecodedPush,
    DecodeOptions,
    body_text,
    check_size,
    decode,
    make_element,
    reject_element,
)
from quadrill.store.pushes.records import MEDIA_TYPES, PushRecord, read_records

from .mapping import RecordMapping
from .times import record_ms


def decode_mapped(
    body: bytes, media_type: str, mapping: RecordMapping, options: DecodeOptions
) -> DecodedPush:
    """Decode a push to a stream with a mapping; a body in an RDF format is decoded without the mapping.

    Raises:
        RdfSyntaxError, InputError, LimitError: a record is wrong; the message has the record's position.
        MediaTypeError: the records have another format than the mapping declares.
    """
    name, parameters = split_media_type(media_type)
    kind = MEDIA_TYPES.get(name)
    if kind is None:
        return decode(body, media_type, options)
    declared = mapping.declaration
    if declared.format is not None and (declared.format == "csv") != (kind == "csv"):
        raise MediaTypeError(
            f"the stream's mapping is of {declared.format}, the push is {name}",
            hint="Leave format out of the mapping of a stream that takes both.",
        )
    text = body_text(body, parameters.get("charset", "utf-8").lower())
    records = read_records(text, kind, header=declared.header, max_nesting=options.max_nesting)
    return of_records(records, mapping, options)


def of_records(records: Iterable[PushRecord], mapping: RecordMapping, options: DecodeOptions) -> DecodedPush:
    """Map records to elements; raises the same errors as `decode_mapped`."""
    result = DecodedPush()
    skipped = size = 0
    apply, timed, given = mapping.apply, mapping.declaration.time, options.at
    for record in records:
        place, line, found, _ = record
        try:
            if isinstance(found, ReportedError):
                raise found
            statements, time, blank = apply(found)
            if not statements:
                skipped += 1
                continue
            at = given if time is None else time
            if at is None and timed is not None:
                at = record_ms(None, None, timed)
        except ClientLeftError:
            raise
        except ReportedError as error:
            if isinstance(error, InputError | LimitError) and isinstance(found, dict):
                error = type(error)(f"{place}: {error.message}", hint=error.hint, code=error.code)
            reject_element(result, error, place, line, options, record)
            continue
        if options.partial:
            result.records[place] = record
        size += len(statements)
        check_size(size, options)
        if not options.each_triple:
            result.elements.append(make_element((as_columns(statements), at, place, line, blank)))
            continue
        result.elements += [DecodedElement((each,), at, place, line, blank) for each in statements]
    result.skipped = skipped
    return result


def sample(decoded: DecodedPush, stream: str) -> str:
    """Return the elements decoded from records as N-Quads; elements share no blank nodes."""
    return "".join(
        lines_of(relabel_blank_nodes(each.statements, stream, number) if each.blank else each.statements)
        for number, each in enumerate(decoded.elements, start=1)
    )
