"""Implementations of the sub-commands of the command line program ``quadrill``."""
