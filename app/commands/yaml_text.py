"""Reader and writer of YAML, which rejects duplicate names and writes long texts as blocks."""

from __future__ import annotations

from typing import Any

import yaml


class YamlFault(Exception):
    """Error that a text is not valid YAML; the message contains line and column if known."""


def read_yaml(text: str) -> Any:
    """Parse a YAML text and return its value; raise YamlFault when the text is invalid."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f" (at line {mark.line + 1}, column {mark.column + 1})"
        raise YamlFault(f"{error.problem}{place}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlFault(str(error)) from error
    except RecursionError as error:
        raise YamlFault("it is nested too deep") from error


def write_yaml(document: Any) -> str:
    """Format a JSON value as a YAML text."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return text


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML loader that rejects duplicate names in a mapping; PyYAML silently uses the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a YAML node; raise ConstructorError when a name occurs twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the name {key.value!r} stands twice", key.start_mark
                    )
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """YAML dumper that writes texts of several lines as blocks, and never writes anchors or aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that YAML texts repeat a repeated value instead of an alias for it."""
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
