"""The client of JavaScript: its package in an empty folder, in Node and in Chromium, and its types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.client import Client
from tests.app.conftest import Start, start_server
from tests.app.forwarder import forwarding
from tests.app.pages.browser import NEEDS_BROWSER, Page, chromium

__all__ = ["start_server"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "app" / "client_js"
PROGRAMS = Path(__file__).parent / "javascript"
CLIENTS = Path(os.environ.get("TEST_QUADRILL_CLIENTS", Path.home() / ".cache" / "quadrill" / "clients"))
TSC = CLIENTS / "node_modules" / "typescript" / "bin" / "tsc"
NEEDS_NODE = [
    pytest.mark.process,
    pytest.mark.skipif(
        shutil.which("npm") is None or shutil.which("node") is None, reason="no node or no npm"
    ),
]
XSD = "http://www.w3.org/2001/XMLSchema#"


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, env=environment(), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that had nothing in it before the package was installed from its archive."""
    folder = tmp_path_factory.mktemp("javascript")
    packed = tmp_path_factory.mktemp("packed")
    (archive,) = json.loads(run(["npm", "pack", "--json", "--pack-destination", str(packed)], PACKAGE))
    assert sorted(each["path"] for each in archive["files"]) == [
        "LICENSE", "README.md", "index.d.ts", "index.js", "package.json",
    ]  # fmt: skip
    run(["npm", "install", "--offline", "--no-audit", "--no-fund", str(packed / archive["filename"])], folder)
    assert [each.name for each in (folder / "node_modules").iterdir() if each.name[0] != "."] == [
        "quadrill-client"
    ]
    return folder


class TestNode:
    pytestmark = NEEDS_NODE

    def test_every_method_works_in_node(self, installed: Path, start_server: Start) -> None:
        shutil.copy(PROGRAMS / "program.mjs", installed)
        printed = run(["node", "program.mjs", start_server().url], installed)
        found: dict[str, Any] = dict(map(json.loads, printed.splitlines()))
        values = [1, "1", 2.0, 2.5, "9007199254740993n", True, "x"]
        assert [row["none"] for row in found["rows"]] == [None] * 7
        assert sorted(map(str, (row["o"] for row in found["rows"]))) == sorted(
            map(str, [*values[:2], 2, *values[3:]])
        )
        assert found["variables"] == ["o", "none"] and found["date"] == [True, "2024-05-01T10:00:00.000Z"]
        assert found["boolean"] is found["quads"] is found["ended"] is True
        assert (found["empty"], found["unbound"]) == ([], None)
        assert (found["stream"], found["registered"], found["replaced"]) == ("readings", "q", "running")
        assert found["queries"] == ["q"]
        assert found["pushes"] == [[1, 0, True], [1, 1, True], [1, None, True], [1, None, True]]
        assert sorted((row["s"], row["v"]) for row in found["current"]) == [
            ("urn:b", 2),
            ("urn:d", 4),
            ("urn:e", 5),
        ]
        assert found["events"] == [
            [1, "insert", 1000, ["urn:a"]],
            [2, "insert", 2000, ["urn:b"]],
            [3, "insert", 4000, ["urn:d"]],
            [4, "delete", 11001, ["urn:a"]],
            [5, "insert", 12000, ["urn:e"]],
        ]
        assert found["snapshot"][1:] == ["answer", 3]
        assert found["watermark"] == 60_000
        assert (found["dropped"]["status"], found["dropped"]["code"]) == (404, "unknown-query")
        assert (found["syntax"]["status"], found["syntax"]["line"]) == (400, 1)
        assert found["away"] == "no server answers at http://…/: connect ECONNREFUSED …"
        assert (
            found["timeout"].startswith("no server answers at http://…/: ") and "timeout" in found["timeout"]
        )
        assert found["no media type"] == "TypeError"

    def test_feed_resumes_over_cut_connections_and_a_restart(self, installed: Path, tmp_path: Path) -> None:
        """No event is lost or repeated, though connections are cut and a proxy answers 502 meanwhile."""
        (installed / "follow.mjs").write_text(
            'import { Client } from "quadrill-client";\n'
            "let seen = 0;\n"
            'for await (const { id } of new Client(process.argv[2]).feed("q", { resume: 0 })) {\n'
            "  console.log(id);\n"
            "  if (++seen === 60) break;\n"
            "}\n"
        )

        def push(url: str, number: int) -> None:
            httpx.post(
                f"{url}streams",
                params={"iri": "http://e/s", "at": str(1000 * number), "wait": "true"},
                content=f"<urn:s{number}> <urn:v> 1 .",
                headers={"Content-Type": "text/turtle"},
            ).raise_for_status()

        text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:v> ?v } }"
        data = str(tmp_path / "data")
        with forwarding() as proxy:
            with running.serve(Settings(data=data, port=0)) as first:
                proxy.lead_to(first.url)
                httpx.put(f"{first.url}queries/q", content=text, headers={"Content-Type": "text/plain"})
                follower = subprocess.Popen(
                    ["node", "follow.mjs", proxy.url], cwd=installed, env=environment(), text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
                push(first.url, 1)
                assert follower.stdout is not None and follower.stdout.readline() == "1\n"
                for number in range(2, 31):
                    push(first.url, number)
                    if number % 10 == 0:
                        proxy.cut()
                proxy.lead_to(None)
            proxy.cut()
            with running.serve(Settings(data=data, port=0)) as second:
                for number in range(31, 61):
                    push(second.url, number)
                    if number == 45:
                        proxy.lead_to(second.url)
                out, err = follower.communicate(timeout=60)
        assert (err, [int(line) for line in out.split()]) == ("", [*range(2, 61)])

    def test_dropped_query_ends_its_feed(self, installed: Path, start_server: Start) -> None:
        url = start_server().url
        text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:v> ?v } }"
        httpx.put(f"{url}queries/q", content=text, headers={"Content-Type": "text/plain"})
        (installed / "dropped.mjs").write_text(
            'import { Client } from "quadrill-client";\n'
            "const server = new Client(process.argv[2]);\n"
            'setTimeout(() => server.drop("q"), 300);\n'
            'for await (const event of server.feed("q")) console.log("event", event);\n'
            'console.log("ended");\n'
        )
        assert run(["node", "dropped.mjs", url], installed) == "ended\n"

    def test_the_program_of_the_cookbook_prints_what_the_page_says(
        self, installed: Path, start_server: Start
    ) -> None:
        page = (ROOT / "docs" / "cookbook" / "javascript.md").read_text("utf-8")
        (program,), (printed,) = (
            re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("js", "text")
        )
        assert "http://127.0.0.1:7878" in program
        program = program.replace("http://127.0.0.1:7878", start_server().url)
        (installed / "page.mjs").write_text(program)
        assert run(["node", "page.mjs"], installed) == printed

    @pytest.mark.skipif(not TSC.exists(), reason="no TypeScript: make clients")
    def test_types_hold(self, installed: Path) -> None:
        shutil.copy(PROGRAMS / "types.ts", installed)
        options = "--noEmit --strict --target es2022 --module nodenext --lib es2023,dom".split()
        run(["node", str(TSC), *options, "types.ts"], installed)


PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><ol></ol>
<script type="module">
import { Client, QuadrillError } from "./index.js";
const server = new Client(ADDRESS, { token: "a token of some length" });
const say = (text) => {
  const item = document.createElement("li");
  item.textContent = text;
  document.querySelector("ol").append(item);
};
await server.update("CLEAR AL").catch((error) => say(`${error instanceof QuadrillError} ${error.status}`));
const answer = await server.query("SELECT ?o { VALUES ?o { 1 2 } }");
say(JSON.stringify(answer.rows()));
for await (const { id, kind, answer } of server.feed("q", { resume: 0 })) {
  say(`${id} ${kind} ${answer.rows()[0].s}`);
  if (id === 3) break;
}
say("done");
</script>"""


@pytest.mark.browser
@NEEDS_BROWSER[1]
def test_a_page_of_another_site_queries_and_follows_a_feed(tmp_path: Path, start_server: Start) -> None:
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(PACKAGE / "index.js", site)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{web.server_port}"
        token = "a token of some length"
        live = start_server(cors_origins=(address,), token=token)
        with Client(live.url, token=token) as server, chromium(tmp_path / "profile") as driver:
            server.register("SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:v> ?v } }", name="q")
            (site / "index.html").write_text(PAGE.replace("ADDRESS", json.dumps(live.url)))
            page = Page(driver, address)
            page.open("/index.html")
            for number in range(1, 4):
                triple = f"<urn:s{number}> <urn:v> 1 ."
                server.push("http://e/s", triple, media_type="text/turtle", at=number * 1000, wait=True)
            page.until(lambda: "done" in page.text("li"), "the feed is read")
            assert page.text("li").split("\n") == [
                "true 400",
                '[{"o":1},{"o":2}]',
                *(f"{number} insert urn:s{number}" for number in (1, 2, 3)),
                "done",
            ]
    finally:
        web.shutdown()
        web.server_close()


def versions() -> Iterator[str]:
    yield tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    yield json.loads((PACKAGE / "package.json").read_text("utf-8"))["version"]


def test_the_package_has_the_version_of_the_server() -> None:
    assert len(set(versions())) == 1


def test_the_declared_types_name_what_the_module_has() -> None:
    """Exported names and the methods of each class are the same in index.js and index.d.ts."""
    module, types = ((PACKAGE / name).read_text("utf-8") for name in ("index.js", "index.d.ts"))
    names = [set(re.findall(r"^export (?:class|function) (\w+)", text, re.M)) for text in (module, types)]
    assert names[0] == names[1] == {"Answer", "Client", "QuadrillError", "plainValue"}
    for name in ("Answer", "Client"):
        bodies = [
            re.search(rf"^export class {name} .*?^}}", text, re.M | re.S)[0] for text in (module, types)
        ]  # type: ignore[index]
        methods = [set(re.findall(r"^  (?:async )?\*?(\w+)\(", body, re.M)) for body in bodies]
        assert methods[0] == methods[1]
