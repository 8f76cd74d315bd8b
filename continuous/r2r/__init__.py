"""Relation-to-relation operators: deltas of encoded rows in, a delta of rows out."""
