"""Feeds: numbered events of queries, with a bounded history that subscribers read."""
