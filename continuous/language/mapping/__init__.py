"""Mappings: how the records of a stream (JSON, CSV) become RDF, compiled once when the stream is declared.

    {"construct": text}  --construct.py-->  algebra  --generate.py-->  a Python function of a record's fields
    {"jsonld": context}  --context.py-->    terms    --jsonld.py-->    a function of a record

``declaration.py`` is the mapping as it is declared, ``mapping.py`` what is made of it, ``records.py`` reads
bodies, ``fields.py`` the fields of a record, ``times.py`` their times.
"""
