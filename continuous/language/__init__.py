"""The query languages: text to syntax tree to algebra."""
