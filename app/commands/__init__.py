"""The sub-commands of ``quadrill``."""
