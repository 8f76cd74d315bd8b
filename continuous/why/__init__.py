"""Reasons of events: the elements and quads over which a query gives one row of an event."""
