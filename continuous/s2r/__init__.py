"""Stream to relation: windows over event time."""
