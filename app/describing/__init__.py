"""Descriptions of continuous queries and streams as JSON documents and text."""
