"""Rows of static parts on disk: what can be made again, kept so that it need not be."""
