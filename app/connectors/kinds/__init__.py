"""The kinds of sources and sinks, one a file; `catalogue` lists them."""
