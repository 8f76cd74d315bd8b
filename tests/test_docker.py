"""The files of docker/: pinned images, no root, a health check, an entry point that is a shell script."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[1] / "docker"


def test_images_are_pinned_to_a_version() -> None:
    text = (DOCKER / "Dockerfile").read_text() + (DOCKER / "compose.yaml").read_text()
    images = re.findall(r"^(?:FROM|\s+image:) (\S+:\S+)", text, re.M)
    assert len(images) >= 5
    assert all(re.search(r":\d+\.\d+", image) for image in images)


def test_every_image_ends_as_another_user_than_root_and_is_watched() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert "HEALTHCHECK" in text
    stages = re.split(r"^FROM ", text, flags=re.M)
    final = [stage for stage in stages if stage.startswith("base AS")]
    assert len(final) == 2
    assert all(stage.rstrip().endswith("USER quadrill") for stage in final)


def test_the_packages_of_the_project_are_all_copied() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for folder in ("app", "continuous", "store", "migrations", "static"):
        assert f"COPY {folder} ./{folder}" in text


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_entry_point_is_a_valid_shell_script() -> None:
    assert subprocess.run(["sh", "-n", str(DOCKER / "entrypoint.sh")], check=False).returncode == 0
