"""The distribution quadrill-client: in a fresh environment, with httpx alone, it pushes and reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.app.conftest import Start, start_server

__all__ = ["start_server"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "app" / "client"
PROGRAM = """
import asyncio, importlib.util, sys
from quadrill.client import AsyncClient, Client

server_needs = ("flask", "pyoxigraph", "rdflib", "quadrill.store")
assert not [each for each in server_needs if importlib.util.find_spec(each)]
with Client(sys.argv[1]) as server:
    server.declare_stream("s", mapping={"construct": "CONSTRUCT { [] <urn:p> ?v } WHERE {}"})
    server.register("SELECT ?v { STREAM <s> [NOW] { ?s <urn:p> ?v } }", name="q")
    server.push("s", [{"v": 21}])
    print(next(server.feed("q", resume=0)).answer.rows())

async def read():
    async with AsyncClient(sys.argv[1]) as server:
        async for event in server.feed("q", resume=0):
            return event.answer.rows()

print(asyncio.run(read()))
"""


def dependencies(name: str) -> set[str]:
    """The distributions that one needs here, itself with them."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        found.add(each := waiting.pop())
        for line in metadata.requires(each) or ():
            needed = Requirement(line)
            if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and needed.name not in found:
                waiting.append(needed.name)
    return found


@pytest.mark.skipif(
    Version(metadata.version("setuptools")) < Version("77"), reason="builds with setuptools 77 or later"
)
def test_the_wheel_works_in_an_environment_with_httpx_alone(start_server: Start, tmp_path: Path) -> None:
    # A build leaves folders behind, so it works on a copy.
    source = shutil.copytree(FOLDER, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = source.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    modules = {
        f"quadrill/client/{path.name}" for path in FOLDER.iterdir() if path.suffix in (".py", ".typed", ".js")
    }
    assert {name for name in names if ".dist-info/" not in name} == modules

    venv.create(tmp_path / "fresh", with_pip=False)
    (packages,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    needed = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert [Requirement(each).name for each in needed] == ["httpx"]
    for each in dependencies("httpx"):
        for file in metadata.files(each) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), packages / file)

    server = start_server()
    program = PROGRAM.replace("<s>", f"<{server.services.engine.settings.base_iri}s>")
    command = [str(tmp_path / "fresh" / "bin" / "python"), "-I", "-c", program, server.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "[{'v': 21}]\n" * 2


def test_both_distributions_say_the_same_of_the_client() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    client = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]
    for member in ("version", "license", "requires-python"):
        assert client[member] == whole[member]
    assert set(client["dependencies"]) <= set(whole["dependencies"])
