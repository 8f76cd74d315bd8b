"""Queries that differ in constants alone, evaluated together."""
