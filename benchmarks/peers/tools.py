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


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: what makes it, the file that shows that it is there, and how it comes."""

    name: str
    version: str
    program: str
    made: Path
    command: tuple[str, ...]


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
)
OXIGRAPH = Peer(
    "oxigraph serve",
    "0.5.13",
    sys.executable,
    FOLDER / "oxigraph" / "bin" / "oxigraph",
    (
        *(sys.executable, "-m", "pip", "install", "-q", "--no-deps"),
        *("--target", str(FOLDER / "oxigraph"), "oxigraph==0.5.13"),
    ),
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
    try:
        done = subprocess.run(peer.command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"its installation took more than {PATIENCE_S} s"
    if not peer.made.exists():
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"{Path(peer.command[0]).name} failed: {said[-1] if said else done.returncode}"
    return None
