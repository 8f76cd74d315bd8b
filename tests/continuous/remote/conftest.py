"""An endpoint with some labels, and an engine that may reach it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .bench import Remote
from .endpoint import Endpoint, endpoint


@pytest.fixture
def far() -> Iterator[Endpoint]:
    with endpoint() as one:
        one.update("INSERT DATA { :a :label 1 . :b :label 2 }")
        yield one


@pytest.fixture
def bench(far: Endpoint) -> Iterator[Remote]:
    one = Remote(far)
    one.engine.start()
    yield one
    one.engine.stop()
    one.store.close()
