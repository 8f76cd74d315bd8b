"""The sequencer works turns off one after the other; the router gives inputs to the queries that read them."""
