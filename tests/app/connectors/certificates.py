"""Certificates for tests: an authority of one's own, and a server's for 127.0.0.1."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SUBJECT = "/CN=Quadrill's tests/O=of {}"


def authority_and_server(folder: Path) -> tuple[Path, Path, Path]:
    """The files of an authority's certificate, of a server's, and of the server's key."""
    authority, certificate, key = (folder / name for name in ("ca.pem", "server.pem", "server.key"))
    request, extensions = folder / "server.csr", folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    # Python 3.13 and later trust an authority only if its certificate says what its key is for.
    _openssl(*new, "-x509", "-days", "2", "-subj", _SUBJECT.format(folder.name),
             "-addext", "keyUsage=critical,keyCertSign,cRLSign",
             "-keyout", str(folder / "ca.key"), "-out", str(authority))  # fmt: skip
    _openssl(*new, "-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(request))
    _openssl("x509", "-req", "-days", "2", "-in", str(request), "-CA", str(authority),
             "-CAkey", str(folder / "ca.key"), "-CAcreateserial", "-extfile", str(extensions),
             "-out", str(certificate))  # fmt: skip
    return authority, certificate, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
