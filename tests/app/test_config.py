"""Settings: one table for code, environment, files and documentation."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, cast

import pytest

from quadrill.app.commands.plan import with_references
from quadrill.app.config import SETTINGS, Settings, default_data_folder, load_settings
from quadrill.app.connectors.catalogue import described_kinds
from quadrill.app.connectors.declaration import HIDDEN
from quadrill.app.setting_values import SettingsError
from quadrill.store.registry import ConnectorRole

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
APP = Path(__file__).parents[2] / "app"
CONFIG = APP / "config.py"


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "quadrill.toml"
    file.write_text('port = 1\nhost = "127.0.0.2"\nthreads = 3\nload_folders = ["/a", "/b"]\n')
    environment = {"QUADRILL_PORT": "2", "QUADRILL_HOST": "127.0.0.3", "OTHER": "x"}
    settings = load_settings(overrides={"port": 4}, environment=environment, file=file)
    assert (settings.port, settings.host, settings.threads) == (4, "127.0.0.3", 3)
    assert settings.load_folders == ("/a", "/b")


def test_variables_of_commands_are_no_settings() -> None:
    taken: dict[str, str] = {}
    for role in ("source", "sink"):
        for kind in described_kinds(cast(ConnectorRole, role)):
            members = {each["name"]: HIDDEN for each in kind["members"] if each["secret"]}
            members["url"] = f"http://e/?token={HIDDEN}&sig={HIDDEN}"
            with_references(f"{role}s", "a-b", members, taken)
    assert {"QUADRILL_SINK_A_B_OPTIONS", "QUADRILL_SOURCE_A_B_URL_"} < set(taken)
    environment = {each: "x" for each in [*taken, "QUADRILL_SERVER"]}
    assert load_settings(environment=environment) == Settings()
    with pytest.raises(SettingsError, match="source_folder "):
        load_settings(environment={"QUADRILL_SOURCE_FOLDER": "/a"})


def test_values_of_the_environment_are_read_by_their_type() -> None:
    environment = {
        "QUADRILL_READ_ONLY": "yes",
        "QUADRILL_QUERY_TIMEOUT": "2.5",
        "QUADRILL_REMOTE_HOSTS": "a.example, b.example:81,",
    }
    settings = load_settings(environment=environment)
    assert settings.read_only is True
    assert settings.query_timeout == 2.5
    assert settings.remote_hosts == ("a.example", "b.example:81")


@pytest.mark.parametrize(
    "text", ['["http://a.example", "http://b.example"]', "http://a.example,http://b.example"]
)
def test_a_list_of_the_environment_may_be_json(text: str) -> None:
    settings = load_settings(environment={"QUADRILL_CORS_ORIGINS": text, "QUADRILL_SERVER": "http://x/"})
    assert settings.cors_origins == ("http://a.example", "http://b.example")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"QUADRILL_QUERY_TIMEUOT": "1"}, "Did you mean query_timeout"),
        ({"QUADRILL_PORT": "many"}, "whole number"),
        ({"QUADRILL_READ_ONLY": "perhaps"}, "true or false"),
        ({"QUADRILL_QUERY_TIMEOUT": "-1"}, "negative"),
        ({"QUADRILL_QUERY_TIMEOUT": "nan"}, "negative or infinite"),
        ({"QUADRILL_PORT": "65536"}, "from 0 to 65535"),
        ({"QUADRILL_THREADS": "0"}, "at least 1"),
        ({"QUADRILL_BASE_IRI": "nope"}, "an absolute IRI, it is 'nope'"),
        ({"QUADRILL_CORS_ORIGINS": "[http://a.example]"}, 'Write ["a", "b"] or a,b'),
        ({"QUADRILL_CORS_ORIGINS": "nonsense"}, "'nonsense' is not one"),
        ({"QUADRILL_CORS_ORIGINS": "https://a.example/"}, "without a path"),
        ({"QUADRILL_CORS_ORIGINS": "[1]"}, "a list of texts"),
    ],
)
def test_what_cannot_be_used_stops_the_start(environment: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as stopped:
        load_settings(environment=environment)
    assert words in f"{stopped.value.message} {stopped.value.hint}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"port": 65536}, "setting port in Settings must be from 0 to 65535"),
        ({"threads": 0}, "at least 1"),
        ({"query_timeout": float("nan")}, "negative or infinite"),
        ({"read_only": "yes"}, "true or false"),
        ({"data": Path("/a")}, "a text"),
        ({"base_iri": "nope"}, "an absolute IRI"),
        ({"cors_origins": ("nonsense",)}, "'nonsense' is not one"),
        ({"trusted_proxies": ["10.0.0.0/40"]}, "'10.0.0.0/40' is not one"),
        ({"remote_hosts": "a.example"}, "a list of texts"),
    ],
)
def test_settings_of_code_are_checked_as_others_are(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as stopped:
        Settings(**values)
    assert words in stopped.value.message
    with pytest.raises(SettingsError):
        dataclasses.replace(Settings(), **values)


def test_settings_of_code_have_the_types_of_the_table() -> None:
    settings = Settings(query_timeout=2, load_folders=["/a"])  # type: ignore[arg-type]
    assert isinstance(settings.query_timeout, float)
    assert settings.load_folders == ("/a",)
    assert settings == load_settings(overrides={"query_timeout": 2, "load_folders": ["/a"]}, environment={})


@pytest.mark.parametrize(
    ("text", "words"),
    [("port = 'x'", "whole number"), ("prot = 1", "unknown setting prot"), ("port = ", "TOML")],
)
def test_a_wrong_file_is_told_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=words) as stopped:
        load_settings(environment={}, file=file)
    assert "wrong.toml" in stopped.value.message
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(environment={}, file=tmp_path / "missing.toml")


def test_the_data_folder_is_the_users_unless_named(tmp_path: Path) -> None:
    assert default_data_folder({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "quadrill"
    assert default_data_folder({}).name == "quadrill"
    assert Settings(data=":memory:").data_folder is None
    assert Settings(data="/x/y").data_folder == Path("/x/y")


def test_relative_data_folder_is_absolute_for_processes_with_another_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("data", "./data", "inner/../data"):
        folder = Settings(data=given).data_folder
        assert folder is not None and folder.is_absolute() and folder.resolve() == tmp_path.resolve() / "data"


def test_the_documentation_lists_every_setting_with_its_default_and_nothing_else() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.M)
    documented = {name: (default, unit, text) for name, default, unit, text in rows}
    assert list(documented) == [row.name for row in SETTINGS]
    for row in SETTINGS:
        default, unit, text = documented[row.name]
        assert default == shown(row.default), row.name
        assert unit == (row.unit or "-"), row.name
        assert text == row.help, row.name


def test_the_documentation_has_a_setting_under_the_heading_of_the_code() -> None:
    lines = re.findall(r"^    # (.+)$|^    (\w+): .* = _setting\(", CONFIG.read_text("utf-8"), re.M)
    pages = re.findall(r"^## (.+)$|^\| `(\w+)` \|", DOCS.read_text("utf-8"), re.M)
    assert [(heading.lower(), name) for heading, name in pages] == lines


@pytest.mark.parametrize("name", [row.name for row in SETTINGS])
def test_a_setting_is_read_somewhere(name: str) -> None:
    reads = re.compile(rf"settings\.{name}\b")
    files = (path for path in APP.rglob("*.py") if path != CONFIG)
    assert any(reads.search(path.read_text("utf-8")) for path in files), f"no module reads the setting {name}"


def shown(default: object) -> str:
    if default in ("", ()):
        return "-"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
