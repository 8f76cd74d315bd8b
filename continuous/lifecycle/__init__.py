"""The operations of an engine on streams and queries, and the steps by which queries begin and end."""
