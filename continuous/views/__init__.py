"""Materialised views: named graphs of the store that equal the answers of CONSTRUCT queries."""
