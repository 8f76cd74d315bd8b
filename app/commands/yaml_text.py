"""YAML for people: names that stand twice are refused, texts of several lines stay readable."""

from __future__ import annotations

from typing import Any

import yaml


class YamlFault(Exception):
    """A text is no YAML; the message tells the place."""


def read_yaml(text: str) -> Any:
    """The value of a text; raises YamlFault."""
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
    """The text of a value."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return text


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML takes the last of equal names and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose names differ."""
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
    """Texts of several lines as blocks; what is used twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors."""
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
