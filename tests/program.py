"""The command ``quadrill`` as a process that starts quickly: a fork of one that has loaded everything.

Loading a server and building its grammars takes more than three seconds of CPU, and the tests start hundreds
of servers. The first `Program` of a test process starts this file, which loads everything and waits for
requests; each `Program` is a fork of that process. The fork gets the given arguments, environment, folder
and standard streams, and becomes a child of the test process: its id, signals and exit code are those of any
other process. A test of the start itself, of loaded modules for instance, uses `COMMAND` with `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

COMMAND = [sys.executable, "-m", "quadrill.app.cli"]
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux: orphaned descendants of a process become its children."""
_INTERPRETER = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""Prefixes of variables that Python reads at its start only; a fork applies PYTHONPATH itself."""


class Program(subprocess.Popen[Any]):
    """The process of ``quadrill ARGUMENTS``; the options are those of `subprocess.Popen`.

    It starts without a fork where that is impossible: outside of Linux, with other variables for Python, or
    with options that act in the new process.
    """

    def __init__(self, *arguments: str, **options: Any) -> None:
        super().__init__([*COMMAND, *arguments], **options)

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: Any, *further: Any,
    ) -> None:  # fmt: skip
        pipes, session = further[:6], further[-2]
        environment = dict(os.environ if env is None else env)
        original = _original() if sys.platform == "linux" and not preexec_fn and not pass_fds else None
        if original is None or _of_start(environment) != original.environment:
            given = args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags
            super()._execute_child(*given, shell, *further)  # type: ignore[misc]
            return
        request = {
            "arguments": args[len(COMMAND) :],
            "environment": environment,
            "folder": os.path.abspath(cwd or "."),
            "session": session,
        }
        try:
            theirs = pipes[0], pipes[3], pipes[5]
            streams = [number if pipe == -1 else pipe for number, pipe in enumerate(theirs)]
            self.pid = original.fork(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``quadrill ARGUMENTS`` to its end; returns its output and exit code."""
    timeout, text = options.pop("timeout", 60), options.pop("input", None)
    streams = {"stdin": subprocess.PIPE} if text is not None else {}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **streams, **options}
    with Program(*arguments, **options) as process:
        try:
            out, errors = process.communicate(text, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def _of_start(environment: Any) -> dict[str, str]:
    names = [name for name in environment if name.startswith(_INTERPRETER) and name != "PYTHONPATH"]
    return {name: environment[name] for name in names}


class _Original:
    """The process that is forked, seen from the test process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self.environment = _of_start(os.environ)
        self._lock = threading.Lock()
        atexit.register(self._close)

    def fork(self, request: dict[str, Any], streams: list[int]) -> int:
        """Fork it; returns the id of the new process."""
        text = json.dumps(request).encode()
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._control, [len(text).to_bytes(4, "big")], streams)
                self._control.sendall(text)
                answer = self._control.recv(5, socket.MSG_WAITALL)
                assert len(answer) == 5, "the process that is forked has ended"
            finally:
                prctl(_SUBREAPER, 0, 0, 0, 0)
        return int.from_bytes(answer[:4], "big")

    def _close(self) -> None:
        self._control.close()
        self._process.wait()


_found: list[_Original] = []
_finding = threading.Lock()


def _original() -> _Original:
    with _finding:
        if not _found:
            _found.append(_Original())
        return _found[0]


def _load() -> None:
    """Import the modules and build the grammars that a server needs."""
    import gc
    from importlib import import_module

    gc.disable()
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # as the command does
    for name in ("app.running", "app.demo.run", "migrations", "continuous.language"):
        import_module(f"quadrill.{name}")
    import_module("sqlalchemy.dialects.sqlite")
    import_module("encodings.idna")
    cli, language = import_module("quadrill.app.cli"), import_module("quadrill.continuous.language")
    cli.build_parser("")
    language.warm_up()
    gc.collect()
    gc.freeze()
    gc.enable()


def _wait_for_requests(control: socket.socket) -> None:
    """Fork for each request; returns in the new process, which then runs its command.

    The parent of that process ends at once, so that the test process becomes its parent (`_SUBREAPER`).
    """
    while True:
        header, streams, *_ = socket.recv_fds(control, 4, 3)
        if not header:
            os._exit(0)
        request = json.loads(control.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL))
        between = os.fork()
        if between == 0:
            between = os.getpid()
            made = os.fork()
            if made == 0:
                control.close()
                while os.getppid() == between:
                    os.sched_yield()
                _become(request, streams)
                return
            control.sendall(made.to_bytes(4, "big"))
            os._exit(0)
        for stream in streams:
            os.close(stream)
        os.waitpid(between, 0)
        control.sendall(b".")


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Apply the arguments, environment, folder and streams of a request to this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = request["arguments"]
    given = os.environ.get("PYTHONPATH", "")
    sys.path[0:1] = [request["folder"], *filter(None, given.split(os.pathsep))]
    eager = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", 1 if eager or os.isatty(1) else -1, "utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        _wait_for_requests(requests)
    from quadrill.app.cli import main

    sys.exit(main())
