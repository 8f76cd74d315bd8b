"""One-shot queries and updates: evaluated in the server or in worker processes that can be killed."""
