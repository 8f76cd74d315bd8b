"""Commits and their exact changes: quads and graph names, changes not yet made, and how they are made."""
