"""What all tests have in common."""

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collecting thousands of tests made stays: no search for garbage looks through it again."""
    gc.collect()
    gc.freeze()
