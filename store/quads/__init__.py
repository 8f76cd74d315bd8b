"""The quad store: versions, change sets, reading and writing."""
