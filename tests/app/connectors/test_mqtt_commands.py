"""What the documentation shows of MQTT, with a real mosquitto and its own clients."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("paho.mqtt.client", reason="needs the library paho-mqtt")


from tests.app.conftest import Start
from tests.app.connectors.mosquitto import HOST, NEEDED, Broker, broker_in, until
from tests.app.connectors.processes import cookbook_blocks, cookbook_commands
from tests.app.connectors.test_sources import S
from tests.program import run

pytestmark = NEEDED


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_in(tmp_path / "broker") as made:
        yield made


@pytest.mark.slow
def test_the_demo_comes_through_the_broker(broker: Broker) -> None:
    arguments = ["demo", "--port", "0", "--seconds", "3", "--source", "mqtt", "--broker", broker.url]
    ended = run(*arguments, timeout=200)
    assert ended.returncode == 0, ended.stderr
    assert "nothing yet" not in ended.stdout.rsplit("late-departures", 1)[1].splitlines()[0]
    broker.kill()
    ended = run(*arguments, timeout=200)
    assert ended.returncode == 1 and "no MQTT broker answers" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="needs Debian's package mosquitto-clients")
def test_the_commands_of_the_cookbook(start_server: Start, broker: Broker) -> None:
    server = start_server(remote_hosts=(HOST,))
    commands = cookbook_commands("mqtt", server.url).replace("127.0.0.1:1883", f"{HOST}:{broker.port}")
    commands = commands.replace("mosquitto_sub", f"mosquitto_sub -W 30 -p {broker.port}")
    commands = commands.replace("mosquitto_pub", f"mosquitto_pub -p {broker.port}")
    declare, publish_and_see = commands.split("\n\n")
    subprocess.run(["bash", "-ec", declare], check=True, capture_output=True, timeout=60)
    until(lambda: server.client.get("/sinks/alerts").json()["state"] == "running")
    until(lambda: server.client.get("/sources/sensors").json()["state"] == "running")
    send, see = publish_and_see.splitlines()
    with subprocess.Popen(["bash", "-ec", see], stdout=subprocess.PIPE, text=True) as seeing:
        for _ in range(60):  # until the one who waits has subscribed
            subprocess.run(["bash", "-ec", send], check=True, timeout=60)
            with contextlib.suppress(subprocess.TimeoutExpired):
                seeing.wait(1)
                break
        assert seeing.stdout is not None
        document = json.loads(seeing.stdout.read())
    assert document["data"]["results"]["bindings"][0]["sensor"]["value"] == "http://example.org/a"


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="needs Debian's package mosquitto-clients")
def test_what_a_subscriber_prints_is_pushed_line_by_line(start_server: Start, broker: Broker) -> None:
    commands = cookbook_blocks("stdin", "sh")[0].splitlines()
    [command] = [each for each in commands if each.startswith("mosquitto_sub")]
    server = start_server()
    construct = "CONSTRUCT { ?s <urn:c> ?c } WHERE { BIND(IRI(CONCAT('urn:', ?sensor)) AS ?s) }"
    declared = {"iri": S, "mapping": {"construct": construct, "time": "ts"}, "retention": "1h"}
    assert server.client.put("/streams/sensors", json=declared).status_code == 201
    for number in range(3):
        record = {"sensor": f"s{number}", "c": number, "ts": number + 1}
        broker.publish(f"sensors/{number}", json.dumps(record), retain=True)
    push = f"{sys.executable} -m quadrill.app.cli push --server {server.url}"
    command = command.replace("mosquitto_sub", f"mosquitto_sub -p {broker.port} -C 3 -W 60")
    ended = subprocess.run(
        ["bash", "-ec", command.replace("quadrill push", push)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    described = server.client.get("/streams/sensors").json()
    assert (described["accepted"], described["late_counts"]["late"]) == (3, 0)
