"""The files of docker/: linted, pinned images, no root, health checks, a composition that is whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from quadrill.app.config import SETTINGS

DOCKER = Path(__file__).parents[1] / "docker"


def test_images_are_pinned_to_a_version() -> None:
    text = (DOCKER / "Dockerfile").read_text() + (DOCKER / "compose.yaml").read_text()
    images = re.findall(r"^(?:FROM|\s+image:) (\S+:\S+)", text, re.M)
    assert len(images) >= 5
    assert all(re.search(r":\d+\.\d+", image) for image in images)


def test_versions_are_locked_for_the_python_of_the_images() -> None:
    images = set(re.findall(r"^FROM python:(\d+\.\d+)", (DOCKER / "Dockerfile").read_text(), re.M))
    makefile = (DOCKER.parent / "Makefile").read_text()
    assert images == set(re.findall(r"--python-version (\S+)", makefile)) and len(images) == 1


def test_every_image_ends_as_another_user_than_root_and_is_watched() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert "HEALTHCHECK" in text
    stages = re.split(r"^FROM ", text, flags=re.M)
    final = [stage for stage in stages if stage.startswith("base AS")]
    assert len(final) == 2
    assert all(stage.rstrip().endswith("USER 10001:10001") for stage in final)


def test_the_packages_of_the_project_are_all_copied() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for folder in ("app", "continuous", "store", "migrations", "static", "docs"):
        assert f"COPY {folder} ./{folder}" in text


@pytest.mark.parametrize(
    ("name", "extras"),
    [("requirements.lock", ("postgres",)), ("requirements-spark.lock", ("postgres", "spark"))],
)
def test_the_lock_files_hold_every_requirement_with_its_hashes(name: str, extras: tuple[str, ...]) -> None:
    locked: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", (DOCKER / name).read_text().strip()):
        found = re.match(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", entry)
        assert found, entry[:60]
        assert "--hash=sha256:" in entry, found.group(1)
        locked[found.group(1).lower()] = found.group(2)
    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
    ]
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.specifier.contains(locked[requirement.name.lower()]), text
    assert f"--require-hashes --no-deps -r docker/{name}" in (DOCKER / "Dockerfile").read_text()


def test_services_have_limits_and_no_more_rights_than_they_need(composition: dict[str, Any]) -> None:
    for name, service in composition["services"].items():
        assert service["init"] is True, name
        assert "mem_limit" in service, name
        assert "no-new-privileges:true" in service["security_opt"], name
        if name != "registry":
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name


def test_the_cluster_has_a_secret(composition: dict[str, Any]) -> None:
    for name in ("server", "spark-master", "spark-worker"):
        assert composition["services"][name]["secrets"] == ["spark_secret"]
    assert composition["secrets"]["spark_secret"]["file"] == "./spark_secret"


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@pytest.mark.parametrize("secret", ["", "s3cret"])
def test_a_secret_that_is_mounted_becomes_sparks_own_configuration(secret: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(secret)
    # A command of that name stands for quadrill and tells what Spark would read.
    told = tmp_path / "quadrill"
    told.write_text(
        '#!/bin/sh\ncat "${SPARK_CONF_DIR:-/nowhere}/spark-defaults.conf" 2>/dev/null\n'
        'stat -c %a "${SPARK_CONF_DIR:-/}"/*\n'
    )
    told.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_SECRET_FILE": str(tmp_path / "secret")}
    ran = subprocess.run(
        ["sh", str(DOCKER / "entrypoint.sh"), "serve"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if secret:
        assert "spark.authenticate true" in ran.stdout
        assert "spark.authenticate.secret s3cret" in ran.stdout
        assert ran.stdout.splitlines()[-1] == "600"
    else:
        assert "spark.authenticate" not in ran.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    # Only the programs are other ones: those of the unit are not installed here.
    text = (DOCKER / "quadrill.service").read_text()
    unit = tmp_path / "quadrill.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.M))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if "quadrill.service" in line] == []


def test_the_unit_ends_servers_softly_and_gives_them_no_rights() -> None:
    unit = dict(
        line.split("=", 1)
        for line in (DOCKER / "quadrill.service").read_text().splitlines()
        if "=" in line and line[0] != "#"
    )
    assert unit["KillSignal"] == "SIGTERM"
    assert int(unit["TimeoutStopSec"]) >= 30
    assert unit["CapabilityBoundingSet"] == ""
    assert unit["NoNewPrivileges"] == unit["DynamicUser"] == "yes"
    assert int(unit["LimitNOFILE"]) >= 4096


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_entry_point_is_a_valid_shell_script() -> None:
    assert subprocess.run(["sh", "-n", str(DOCKER / "entrypoint.sh")], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint has no wheel for this machine")
def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    told = subprocess.run(
        ["hadolint", "--no-color", str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert told.stdout == ""
    assert told.returncode == 0


@pytest.fixture(scope="module")
def composition() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return read


def test_every_service_names_an_image_of_its_own_or_one_that_is_built(composition: dict[str, Any]) -> None:
    services = composition["services"]
    assert set(services) == {"server", "registry", "spark-master", "spark-worker"}
    built = {each["image"] for each in services.values() if "build" in each}
    targets = set(re.findall(r"^FROM base AS (\S+)", (DOCKER / "Dockerfile").read_text(), re.M))
    assert all(each["build"]["target"] in targets for each in services.values() if "build" in each)
    own = {name for name, each in services.items() if each["image"] not in built}
    assert own == {"registry"}


def test_what_a_service_depends_on_mounts_and_asks_for_is_there(composition: dict[str, Any]) -> None:
    services = composition["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            if how["condition"] == "service_healthy":
                assert "test" in services[other]["healthcheck"], other
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert source.startswith("./") or source in composition["volumes"], (name, source)


def test_secrets_are_asked_for_and_every_setting_that_is_given_exists(composition: dict[str, Any]) -> None:
    names = {row.name for row in SETTINGS}
    for service in composition["services"].values():
        for name, value in service.get("environment", {}).items():
            if name.startswith("QUADRILL_"):
                assert name.removeprefix("QUADRILL_").lower() in names, name
            if "PASSWORD" in name or "TOKEN" in name:
                assert ":?" in value, f"{name} has a default"


def test_the_master_is_where_the_server_and_the_worker_look_for_it(composition: dict[str, Any]) -> None:
    services = composition["services"]
    address = services["server"]["environment"]["QUADRILL_SPARK_MASTER"]
    assert address == services["spark-worker"]["command"][1] == "spark://spark-master:7077"
    # Spark's tasks read and write the server's folders under the same paths.
    mounts = [set(services[name]["volumes"]) for name in ("server", "spark-master", "spark-worker")]
    assert mounts[0] == mounts[1] == mounts[2]


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="the docker client has no compose",
)
def test_docker_compose_accepts_the_composition() -> None:
    environment = os.environ | {"QUADRILL_TOKEN": "x", "POSTGRES_PASSWORD": "y"}
    told = subprocess.run(
        ["docker", "compose", "-f", str(DOCKER / "compose.yaml"), "config", "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
