"""Benchmarks: deterministic generators and ratios of one run. ``python -m benchmarks --help``."""
