"""A real Kafka broker on loopback: one node that is its own controller, which a test can kill."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient

HOST = "127.0.0.1"
PARTITIONS = 4
USER, PASSWORD = "ann", "x1y2z3"
JARS = Path(os.environ.get("TEST_QUADRILL_KAFKA", "~/.cache/quadrill/kafka")).expanduser()
"""The folder with the broker's jars; `make kafka` fills it."""
MISSING = (
    "needs Java"
    if shutil.which("java") is None
    else f"needs the jars of a Kafka broker in {JARS} (make kafka, or TEST_QUADRILL_KAFKA names a folder)"
    if not list(JARS.glob("kafka_*.jar"))
    else None
)
"""Why there is none; None when there can be one."""

# Little memory, and no compiler that takes long to warm up: a broker of tests lives for seconds.
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Broker:
    """Listens without credentials at `url`, with those of `USER` at `secured`; data stay over a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = _free_ports(3)
        self.servers = f"{HOST}:{ports[0]}"
        self.url, self.secured = f"kafka://{self.servers}", f"kafka://{HOST}:{ports[1]}"
        self._port = ports[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "server.properties"
        listener = "listener.name.sasl_plaintext"
        self._config.write_text(
            f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{ports[2]}
listeners=PLAINTEXT://{HOST}:{ports[0]},SASL_PLAINTEXT://{HOST}:{ports[1]},CONTROLLER://{HOST}:{ports[2]}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
{listener}.sasl.enabled.mechanisms=PLAIN
{listener}.plain.sasl.jaas.config={_LOGIN} user_{USER}="{PASSWORD}";
log.dirs={folder}/data
num.partitions={PARTITIONS}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
        )
        self._run("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c").wait(120)

    def start(self) -> None:
        """Begin, or go on with the data of before; returns once it answers."""
        if self._process is None:
            self._process = self._run("kafka.Kafka")
        deadline = time.monotonic() + 120
        while True:
            assert self._process.poll() is None, (self.folder / "log").read_text()[-4_000:]
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self._port)) == 0:
                    break
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-4_000:]
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def producer(self, **options: Any) -> kafka.Producer:
        """One that writes each record once, over a kill of the broker too."""
        return kafka.Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0, **options}
        )

    def create(self, *topics: str) -> None:
        """Make topics that are not there yet; returns once they are there."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        made = admin.create_topics([kafka.admin.NewTopic(each, PARTITIONS, 1) for each in topics])
        for each in made.values():
            try:
                each.result(60)
            except kafka.KafkaException as error:
                if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def delete(self, topic: str) -> None:
        """Delete a topic; returns once it is gone."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.delete_topics([topic])[topic].result(60)
        deadline = time.monotonic() + 60
        while topic in admin.list_topics(timeout=30).topics:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before an offset, as the topic's retention does."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for each in admin.delete_records([kafka.TopicPartition(topic, partition, offset)]).values():
            each.result(60)

    def read(self, topic: str) -> list[kafka.Message]:
        """All records of a topic."""
        consumer = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "test", "log_level": 0})
        places = [kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)]
        wanted = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in places)
        consumer.assign(places)
        found: list[kafka.Message] = []
        deadline = time.monotonic() + 60
        while len(found) < wanted:
            assert time.monotonic() < deadline
            found += [each for each in consumer.consume(1_000, timeout=0.2) if each.error() is None]
        consumer.close()
        return found

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        command = ["java", *_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{JARS}/*"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([*command, *words, str(self._config)], stdout=log, stderr=log)


def _free_ports(number: int) -> list[int]:
    """Return ports that are free now.

    They are below the range from which the system gives ports to clients and to servers at port 0, because a
    broker that is down for a while needs its ports again.
    """
    ports: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) != 0:
                ports.append(port)
        if len(ports) == number:
            return ports
    raise AssertionError("no free ports")
