"""Stream to relation: event time and windows."""
