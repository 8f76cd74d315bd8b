"""Mappings: conversion of a stream's JSON and CSV records to RDF, compiled when the stream is declared.

    {"construct": text}  --construct.py-->  algebra  --generate.py-->  a Python function of a record's fields
    {"jsonld": context}  --context.py-->    terms    --jsonld.py-->    a function of a record

``declaration.py`` checks the declared mapping, ``mapping.py`` compiles a declaration, ``decode.py`` turns a
pushed body into elements, ``fields.py`` reads the fields of a record, ``times.py`` its event time.
"""
