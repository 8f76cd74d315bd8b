"""Commits with exact change sets, pending changes, and their application to Oxigraph."""
