"""The six queries of the tunnel, after the descriptions of the RSP-QL* paper, beside the reference engine."""

from __future__ import annotations

from collections import Counter

import pytest
from pyoxigraph import NamedNode

from benchmarks import tunnel
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, recomputed

SECTORS = 12


@pytest.mark.parametrize("number", range(1, 7))
def test_a_query_of_the_tunnel_gives_what_the_reference_gives(number: int) -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=list(tunnel.sensors(SECTORS)))
    texts = [tunnel.query(number, behind=behind) for behind in (False, True)]
    if number <= 3:
        texts = [tunnel.query(number, probability) for probability in (0.0, 0.3)]
    width, every = tunnel.TIMES[(number - 1) % 3 + 1]
    # Two seconds of a window of ten have rows enough for the reference.
    seconds = min(width, 2)
    found = 0
    for text in texts:
        query = parse(text)
        native = NativeEvaluator(query, store, EvaluationOptions())
        late = NativeEvaluator(query, store, EvaluationOptions(uncertain_filters="late"))
        reference = ReferenceEvaluator(query, store, EvaluationOptions())
        for end in range(every, 5 * every, every):
            contents = {
                NamedNode(each.name.value): {
                    quad: end
                    for second in range(end - seconds, end)
                    for quad in tunnel.observations(each.name.value.rpartition("/")[2], second, SECTORS)
                }
                for each in query.windows
            }
            expected = Counter(recomputed(reference, end * 1000, contents).rows)
            assert Counter(answer_of(native, end * 1000, contents).rows) == expected
            assert Counter(answer_of(late, end * 1000, contents).rows) == expected
            found += sum(expected.values())
        native.close()
        late.close()
    assert found > 2


def test_binding_behind_the_joins_gives_the_same_rows() -> None:
    scene = tunnel.Tunnel(6, 5)
    for number in (4, 5, 6):
        _, inside = scene.run(number, tunnel.query(number))
        assert scene.run(number, tunnel.query(number, behind=True))[1] == inside
        assert scene.run(number, tunnel.query(number), remembered=False)[1] == inside
