"""The registry: registered queries and declared streams, kept in SQL."""
