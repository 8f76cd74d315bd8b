"""Feeds: what queries tell, numbered and kept for those who read it, in front of the result log."""
