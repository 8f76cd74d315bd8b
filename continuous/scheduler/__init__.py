"""The sequencer executes tasks one after the other; the router delivers inputs to queries."""
