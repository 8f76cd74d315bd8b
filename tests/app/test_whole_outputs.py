"""Commands that follow a feed print all of it, or say that and why they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrill.app.cli import main

from .conftest import Start

END = "1970-01-01T00:00:09Z"
READ = (
    "SELECT ?x WHERE { STREAM <urn:s> [NOW] { ?x <urn:v> ?v } STREAM <urn:t> [RANGE 1h] { ?y ?p <urn:z> } }"
)


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("form", ["events", "rows"])
def test_run_prints_every_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], streams: int, form: str
) -> None:
    text = READ if streams == 2 else "SELECT ?x WHERE { STREAM <urn:s> [NOW] { ?x <urn:v> ?v } }"
    (tmp_path / "q.cqels").write_text(text)
    lines = [{"at": 1000 + n, "data": f"<urn:x{n}> <urn:v> <urn:o> ."} for n in range(2500)]
    (tmp_path / "s.ndjson").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "t.ndjson").write_text(json.dumps({"at": 1, "data": "<urn:y> <urn:w> <urn:z> ."}))
    given = ["--stream", f"urn:s={tmp_path / 's.ndjson'}"]
    if streams == 2:
        given += ["--stream", f"urn:t={tmp_path / 't.ndjson'}"]
    assert main(["run", str(tmp_path / "q.cqels"), *given, "--format", form, "--until", END]) == 0
    printed = capsys.readouterr().out
    assert [n for n in range(2500) if f"urn:x{n}" not in printed] == []


def test_watch_says_that_its_feed_has_ended(start_server: Start, capsys: pytest.CaptureFixture[str]) -> None:
    live = start_server()
    text = "SELECT ?x WHERE { STREAM <urn:s> [RANGE 10s] { ?x ?p ?o } }"
    live.client.put("/queries/q", content=text, headers={"Content-Type": "text/plain"})
    live.client.delete("/queries/q")
    at = ["--server", live.url]
    assert main(["watch", *at, "q"]) == 0
    assert "the feed of q has ended" in capsys.readouterr().err
    assert main(["watch", *at, "q", "--count", "3"]) == 1
