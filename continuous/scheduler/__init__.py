"""The sequencer works turns off one after the other; the router hands inputs to the queries reading them."""
