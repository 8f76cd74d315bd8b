"""The queries of the papers, run by the engine and answered a second time in plain Python."""
