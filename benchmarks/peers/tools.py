"""The peers that registries have, in versions that are fixed: how each is installed, and why not.

They go to the folder ``.peers`` beside the sources, or where ``PEERS_FOLDER`` says. Nothing is installed
twice; a peer whose installation fails is not run, with the last line of what its installer said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("PEERS_FOLDER", HERE.parent.parent / ".peers"))
PATIENCE_S = 3600


def _from_pypi(name: str, version: str = "") -> tuple[str, ...]:
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps")
    return (*pip, "--target", str(FOLDER / name), name + version)


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: what makes it, the file that shows that it is there, and how it comes.

    ``python_package`` is what its command needs from PyPI, in the folder of that name.
    """

    name: str
    version: str
    program: str
    made: Path
    command: tuple[str, ...]
    python_package: str | None = None


RSP_JS = Peer(
    "rsp-js",
    "1.3.5",
    "npm",
    FOLDER / "rsp-js" / "node_modules" / "rsp-js" / "package.json",
    ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER / "rsp-js"), "rsp-js@1.3.5"),
)
RSP_RS = Peer(
    "rsp-rs",
    "0.3.5",
    "cargo",
    FOLDER / "rsp-rs" / "release" / "rsp-rs-driver",
    (
        *("cargo", "build", "--release", "--locked", "--manifest-path", str(HERE / "rsp-rs" / "Cargo.toml")),
        *("--target-dir", str(FOLDER / "rsp-rs")),
    ),
    "libclang",
)
OXIGRAPH = Peer(
    "oxigraph serve",
    "0.5.13",
    sys.executable,
    FOLDER / "oxigraph" / "bin" / "oxigraph",
    _from_pypi("oxigraph", "==0.5.13"),
)
PEERS = (RSP_JS, RSP_RS, OXIGRAPH)


def install(peer: Peer, say: Callable[[str], None] = print) -> str | None:
    """Install a peer that is not there; the reason when it can not be."""
    if peer.made.exists():
        return None
    if shutil.which(peer.program) is None:
        return f"{peer.program} is not installed"
    say(f"installing {peer.name} {peer.version}: {' '.join(peer.command)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    environment = None
    if peer.python_package is not None:
        subprocess.run(_from_pypi(peer.python_package), check=False)
        environment = os.environ | _clang()
    try:
        done = subprocess.run(
            peer.command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"its installation took more than {PATIENCE_S} s"
    if not peer.made.exists():
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"{Path(peer.command[0]).name} failed: {said[-1] if said else done.returncode}"
    return None


def _clang() -> dict[str, str]:
    """Where rsp-rs's build finds libclang, whose package has no headers: those of gcc do."""
    told = subprocess.run(("gcc", "-print-file-name=include"), capture_output=True, text=True, check=False)
    headers = told.stdout.strip()
    folder = str(FOLDER / "libclang" / "clang" / "native")
    return {"LIBCLANG_PATH": folder, "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}" if headers else ""}
