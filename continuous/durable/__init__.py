"""Journal, checkpoints and recovery."""
