"""What an engine writes of its state, and how it comes back after a restart or a crash."""
