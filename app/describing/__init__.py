"""Descriptions of an engine's queries and streams as JSON documents and text."""
