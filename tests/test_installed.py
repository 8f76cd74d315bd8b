"""The wheel, installed in a fresh environment, runs in an empty folder without a checkout."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import unescape
from importlib import metadata
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RELEASE = PROJECT["version"]
SOURCES = ("app", "continuous", "store", "migrations", "static", "docs")
NOT_SHIPPED = re.compile(
    r"app/client/(pyproject\.toml|LICENSE)|app/client_js/.*|docs/site/.*|docs/concepts/pictures/.*\.py"
)
"""Files of the source folders that the wheel does not hold."""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        Version(metadata.version("setuptools")) < Version("77"), reason="builds with setuptools 77 or later"
    ),
]


def sources() -> set[str]:
    """The files of the folders that the wheel holds."""
    files = (path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def tracked() -> set[str]:
    """The files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def build(kind: str, source: Path, target: Path) -> Path:
    """Build a distribution from a folder, without its build leftovers."""
    program = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(target)], cwd=source, capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 0, ended.stderr
    assert "SetuptoolsDeprecationWarning" not in ended.stderr, ended.stderr
    return target / ended.stdout.splitlines()[-1]


def copied(names: Iterable[str], folder: Path) -> Path:
    """A copy of files of the repository: a build leaves folders behind."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needed = sources() | {"pyproject.toml", "README.md", "LICENSE", "NOTICE"}
    source = copied(needed, tmp_path_factory.mktemp("source"))
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


class Installed:
    """The wheel in an environment with its dependencies alone, and an empty folder to run in."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.bin = folder / "environment" / "bin"
        self.empty = folder / "empty"
        self.empty.mkdir()
        venv.create(folder / "environment", with_pip=False)
        (packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
        link_dependencies(packages)
        install = ["install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), *install], check=True
        )
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.empty),
            "QUADRILL_SERVER": "http://127.0.0.1:9",
        }

    def run(self, *arguments: str) -> str:
        """The output of a command."""
        ended = subprocess.run(
            [str(self.bin / "quadrill"), *arguments], cwd=self.empty, env=self.environment,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        # A command that prints rows names their columns on standard error.
        assert ended.returncode == 0 and re.fullmatch(r"(#  time  .*\n)?", ended.stderr), ended.stderr
        return ended.stdout

    @contextmanager
    def started(self, *arguments: str) -> Iterator[httpx.Client]:
        """A client of a server; the server must end well."""
        process = subprocess.Popen(
            [str(self.bin / "quadrill"), *arguments], cwd=self.empty, env=self.environment,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            ready = next(line for line in process.stdout if "http://127.0.0.1" in line)
            address = re.search(r"http://127\.0\.0\.1:\d+/", ready)
            assert address is not None
            with httpx.Client(base_url=address[0], timeout=60) as client:
                yield client
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def link_dependencies(packages: Path) -> None:
    """Let the environment see what the distribution asks for, and nothing else of this one."""
    done: set[str] = set()
    waiting = list(PROJECT["dependencies"])
    while waiting:
        needed = Requirement(waiting.pop())
        if needed.name in done or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        done.add(needed.name)
        waiting += metadata.requires(needed.name) or ()
        for file in metadata.files(needed.name) or ():
            top = packages / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not top.exists():
                top.symlink_to(str(metadata.distribution(needed.name).locate_file(file.parts[0])))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout, to know its files")
def test_the_sdist_holds_the_repository_and_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    sdist = build("sdist", copied(tracked(), tmp_path / "source"), tmp_path)
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    unpacked = tmp_path / "unpacked" / f"quadrill-{RELEASE}"
    assert sorted(name for name in tracked() if not (unpacked / name).is_file()) == []
    again = build("wheel", unpacked, tmp_path / "wheel")
    first, second = (zipfile.ZipFile(path) for path in (wheel, again))
    contents = [{each.filename: each.CRC for each in archive.infolist()} for archive in (first, second)]
    assert contents[0] == contents[1]


def test_the_wheel_holds_what_runs_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        f"quadrill/{name}".replace("quadrill/app/client/", "quadrill/client/")
        for name in sources()
        if not NOT_SHIPPED.fullmatch(name)
    }
    assert (sorted(wanted - held), sorted(held - wanted)) == ([], [])
    assert {f"quadrill/{part}/py.typed" for part in ("app", "client", "continuous", "store")} <= held


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"quadrill-{RELEASE}.dist-info"
    licences = {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"}
    assert licences <= set(archive.namelist())
    described = archive.read(f"{info}/METADATA").decode()
    for line in (f"Version: {RELEASE}", "License-Expression: Apache-2.0", "Classifier: Typing :: Typed"):
        assert f"\n{line}\n" in described
    assert "# Quadrill" in described


def test_an_installed_command_says_its_version(installed: Installed) -> None:
    assert installed.run("version") == installed.run("--version") == f"quadrill {RELEASE}\n"
    assert json.loads(installed.run("version", "--json"))["quadrill"] == RELEASE


def test_an_installed_command_runs_a_query_over_files(installed: Installed) -> None:
    (installed.empty / "warm.cqels").write_text(
        "PREFIX : <http://example.org/>\n"
        "SELECT ?room ?celsius WHERE { STREAM :readings [RANGE 10s] { ?sensor :celsius ?celsius }"
        " GRAPH :rooms { ?sensor :in ?room } }\n"
    )
    (installed.empty / "rooms.ttl").write_text("<urn:s1> <http://example.org/in> <urn:kitchen> .\n")
    (installed.empty / "readings.trig").write_text(
        "@prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
        '<urn:e1> prov:generatedAtTime "2026-01-01T12:00:01Z"^^xsd:dateTime .\n'
        "<urn:e1> { <urn:s1> <http://example.org/celsius> 21 }\n"
    )
    told = installed.run(
        "run", "warm.cqels", "--format", "rows", "--stream", "http://example.org/readings=readings.trig",
        "--static", "http://example.org/rooms=rooms.ttl",
    )  # fmt: skip
    assert re.fullmatch(r"\+ +2026-01-01T12:00:01Z +<urn:kitchen> +21\n", told), told


def test_an_installed_server_has_its_version_and_no_dead_link(installed: Installed) -> None:
    with installed.started("serve", "--data", "data", "--port", "0") as client:
        ready = client.get("/health/ready").json()
        assert (ready["status"], ready["version"]) == ("ready", RELEASE)
        assert client.get("/openapi.json").json()["info"]["version"] == RELEASE
        assert f"Quadrill {RELEASE}" in client.get("/", headers={"Accept": "text/html"}).text
        seen = followed_links(client)
    for address in ("/ui/docs", "/ui/docs/settings.md", "/ui/docs/releases/0.1.0.md", "/ui/docs/page.png"):
        assert address in seen
    assert {address: status for address, status in seen.items() if status != 200} == {}


@pytest.mark.slow
def test_the_installed_demo_shows_its_rows(installed: Installed) -> None:
    with installed.started("demo", "--port", "0") as client:
        assert client.get("/ui/demo").status_code == 200
        assert len(client.get("/queries").json()["queries"]) == 5
        accept = {"Accept": "text/event-stream"}
        with client.stream("GET", "/queries/departures/results?from=0", headers=accept) as events:
            assert any('"bindings"' in line for line in events.iter_lines())


def followed_links(client: httpx.Client) -> dict[str, int]:
    """Every address of the server that its pages lead to, from the first one on, and its status.

    A link to an anchor that its page does not have has the status 0.
    """
    seen: dict[str, int] = {}
    anchors: dict[str, set[str]] = {}
    links = {"/"}
    while waiting := {urldefrag(link).url for link in links} - set(seen):
        address = waiting.pop()
        answer = client.get(address, headers={"Accept": "text/html, */*"})
        seen[address] = answer.status_code
        if answer.headers.get("content-type", "").startswith("text/html"):
            anchors[address] = set(re.findall(r'\bid="([^"]*)"', answer.text))
            targets = re.findall(r'(?:href|src)="([^"]*)"', answer.text)
            found = {urljoin(address, unescape(target)) for target in targets}
            links |= {link for link in found if not re.match(r"\w+:", link)}
    dead = [
        link
        for link in links
        if (anchor := urldefrag(link)[1]) and anchor not in anchors[urldefrag(link).url]
    ]
    return seen | dict.fromkeys(dead, 0)
