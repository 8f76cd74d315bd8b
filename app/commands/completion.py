"""The command ``quadrill completion``, which prints the completion script for bash, zsh or fish."""

from __future__ import annotations

import argparse
from typing import Any

from . import output
from .arguments import add_command

SHELLS = ("bash", "zsh", "fish")


def add_commands(commands: Any) -> None:
    """Add the command ``completion`` to the command line parser."""
    parser = add_command(
        commands,
        "completion",
        _completion,
        "print the completion script for a shell",
        "completion bash >> ~/.bashrc",
        "completion zsh >> ~/.zshrc",
        "completion fish > ~/.config/fish/completions/quadrill.fish",
        further="It completes commands and options. If a server responds within half a second, it also "
        "completes the names of queries, streams, sources and sinks, and the ids of jobs",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def _completion(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    script = shellcode(["quadrill"], shell=options.shell)
    if options.json:
        output.print_json({"shell": options.shell, "script": script})
    else:
        print(script)
    return 0
