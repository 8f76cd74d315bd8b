"""Sources, which feed streams from elsewhere, and sinks, which take what queries tell elsewhere."""
