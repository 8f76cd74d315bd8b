"""Parser of command lines: options stand anywhere, and an error is one sentence with a hint."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from quadrill.store.documents.similar import did_you_mean

USAGE = 2
"""Exit code of a wrong command line."""
_HINT = "\nHint: "
"""Text between the sentence of an error and its hint, while argparse passes both as one text."""
_MISSING = "the following arguments are required: "
_NO_VALUE = "expected one argument"
"""Beginning and end of sentences of argparse that are replaced by clearer ones."""
_NUMBERS = {int: "a whole number", float: "a number"}


class CommandParser(argparse.ArgumentParser):
    """Parser of a command's arguments; options may stand before, between and after other arguments."""

    _is_parsing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of a command; return the options and the arguments that are unknown."""
        # argparse loses arguments behind the separator -- if other arguments may stand between options.
        if self._is_parsing or self._subparsers is not None or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_parsing = False

    def error(self, message: str) -> NoReturn:
        """Print one sentence and a hint on standard error, and exit with code 2."""
        sentence, _, hint = message.partition(_HINT)
        sentence = sentence.removeprefix("argument ")
        example = ""
        if sentence.startswith(_MISSING):
            sentence = f"the command line lacks {sentence.removeprefix(_MISSING)}"
            example = f"For instance: {self.example()}." if self.example() else ""
        elif sentence.endswith(_NO_VALUE):
            sentence = sentence.removesuffix(_NO_VALUE) + "the value is missing"
        command = self.prog.removeprefix("quadrill").strip()
        hints = (hint, example, f"{self.prog} --help lists all.")
        complain(f"{command}: {sentence}" if command else sentence, " ".join(filter(None, hints)))
        self.exit(USAGE)

    def example(self) -> str:
        """Return the first example of the command's help text; empty if it has none."""
        _, _, examples = (self.epilog or "").partition(":\n")
        return examples.partition("\n")[0].strip()

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Report unknown arguments: the first unknown option, else the first superfluous argument."""
        option = next((each for each in unknown if each.startswith("-") and each != "-"), None)
        if option is None:
            self.error(f"the argument {unknown[0]} is superfluous")
        name = option.partition("=")[0]
        # The dashes are left out, because they would make all short options similar.
        known = {each.lstrip("-"): each for each in self._option_string_actions if each.startswith("--")}
        meant = did_you_mean(name.lstrip("-"), known, known.__getitem__)
        self.error(f"there is no option {name}{_HINT}{meant}")

    def actions(self) -> Mapping[str, CommandParser]:
        """Return the parsers of a command's actions by name; empty for a command without actions."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def value_options(self) -> Iterator[str]:
        """Yield the options of a command and its actions that are followed by a value."""
        for option, action in self._option_string_actions.items():
            if action.nargs != 0:
                yield option
        for each in self.actions().values():
            yield from each.value_options()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        meant = did_you_mean(str(value), map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"there is no action {value}{_HINT}{meant}")
        choices = ", ".join(map(str, action.choices))
        raise argparse.ArgumentError(action, f"{value} is not one of {choices}{_HINT}{meant}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            what = _NUMBERS.get(action.type)  # type: ignore[call-overload]
            if what is None:
                raise
            raise argparse.ArgumentError(action, f"{arg_string} is not {what}") from None


def complain(message: str, hint: str | None = None) -> None:
    """Print the sentence of an error, and its hint, on standard error."""
    print(f"quadrill: {message}", file=sys.stderr)
    if hint:
        print(f"Hint: {hint}", file=sys.stderr)


def command_first(arguments: Sequence[str], commands: Mapping[str, CommandParser]) -> list[str]:
    """Move the options in front of a command's name behind it, and behind the name of its action.

    Options without a command, and options in front of an unknown command, are left out.
    """
    with_value = {option for each in commands.values() for option in each.value_options()}
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in with_value else 1
    if place >= len(arguments) or arguments[place] not in commands:
        return list(arguments[place:])
    end = place + 1
    if end < len(arguments) and arguments[end] in commands[arguments[place]].actions():
        end += 1
    return [*arguments[place:end], *arguments[:place], *arguments[end:]]
