"""Streams: acceptance of pushed elements, event time, retained inputs and dead letters of each stream."""
