"""The one order of all inputs: queue, sequencer, router."""
