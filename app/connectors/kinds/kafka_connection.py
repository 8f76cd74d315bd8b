"""Common code of Kafka source and sink: members, librdkafka configuration, allowed brokers, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin._metadata import ClusterMetadata

from quadrill.store.errors import InputError, NetworkRefusedError
from quadrill.store.hosts import AllowedHosts

from ..declaration import DeclarationMember, ValueReader, mapping_of, text
from ..errors import ConnectorError, ConnectorFailedError
from ..web import require_no_password, require_url, url_member

PORTS = {"kafka": 9092}
LOOK_S = 0.25
"""Seconds between two checks whether the Kafka connector has to stop."""
TIMEOUT_S = 10.0
_ASK_S = 1.0
"""Seconds to wait for an answer of a Kafka broker before the errors reported by librdkafka are checked."""

Client: TypeAlias = "Consumer | Producer"

_ANY: tuple[str, ...] = ()
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "security.protocol": ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "sasl.username": _ANY,
    "sasl.password": _ANY,
    "ssl.ca.pem": _ANY,
    "ssl.certificate.pem": _ANY,
    "ssl.key.pem": _ANY,
    "ssl.key.password": _ANY,
    "client.id": _ANY,
    "isolation.level": ("read_committed", "read_uncommitted"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
}
"""The librdkafka properties that a declaration may set, with allowed values (empty: any value).

A declaration may not set librdkafka properties that name a file, a library or an address.
"""

_FINAL = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    )
)
"""Kafka errors that end a connector, because they stay until its declaration or the cluster is changed."""


def _options(value: Any, name: str) -> dict[str, str]:
    """Read the declaration member ``options``; raise InputError for a forbidden property or value."""
    given: dict[str, str] = mapping_of(text)(value, name)
    for key, each in given.items():
        if key not in _OPTIONS:
            raise InputError(f"{name} has no {key!r}", code="member", hint=f"It has {', '.join(_OPTIONS)}")
        known = _OPTIONS[key]
        if known and each.lower() not in (word.lower() for word in known):
            raise InputError(f"{name}.{key} is {each!r}, it must be {' or '.join(known)}", code="member")
    return given


def topic_name(value: Any, name: str) -> str:
    """Return a topic name that follows Kafka's rules; patterns are rejected."""
    found = text(value, name)
    legal = found.isascii() and found.replace(".", "").replace("-", "").replace("_", "").isalnum()
    if len(found) > 249 or not (legal or set(found) <= set("._-")) or found in (".", ".."):
        raise InputError(f"{name} is {found!r}, which is no name of a topic", code="member")
    return found


MEMBERS = (
    url_member("the bootstrap brokers: kafka://host:port[,host:port]"),
    DeclarationMember(
        "options",
        ValueReader(_options, "object"),
        "properties of librdkafka: security.protocol, sasl.username and others",
        default={},
        secret=True,
    ),
)
"""Members of the declarations of both Kafka sources and Kafka sinks."""


def check_brokers(given: Mapping[str, Any], hosts: AllowedHosts) -> None:
    """Raise InputError for invalid broker addresses, NetworkRefusedError for brokers that are not allowed."""
    for each in _addresses(given["url"]):
        require_url(f"kafka://{each}", hosts, PORTS)


_FORM = "kafka://host:port[,host:port]"


def _addresses(url: str) -> list[str]:
    """Return ``host:port`` of each broker in the URL of a Kafka declaration."""
    require_no_password(url, _FORM)
    scheme, _, rest = url.partition("://")
    if scheme != "kafka" or not rest:
        raise InputError(f"url is {url!r}, it must begin with kafka://", code="member")
    found = []
    for each in rest.rstrip("/").split(","):
        try:
            parts = urlsplit(f"kafka://{each}")
            host, port = parts.hostname, parts.port or PORTS["kafka"]
        except ValueError as error:
            raise InputError(f"url is {url!r}: {error}", code="member") from error
        if not host or parts.path or parts.query or parts.username is not None:
            raise InputError(f"url is {url!r}, it must be {_FORM}", code="member")
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


class BrokerErrors:
    """Stores the newest error that librdkafka reports in callbacks, which explains more than a time-out."""

    def __init__(self) -> None:
        self._newest: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Store an error that librdkafka reports during a poll. No later error replaces a permanent one."""
        if self._newest is None or self._newest.code() not in _FINAL:
            self._newest = error

    @property
    def newest(self) -> KafkaError | None:
        """Newest error that librdkafka reported since a broker last answered; None without an error."""
        return self._newest

    def forget(self) -> None:
        """Forget the newest error of librdkafka, because a broker has answered since."""
        self._newest = None

    def raise_final(self, url: str) -> None:
        """Raise ConnectorFailedError if the newest error that librdkafka reported is permanent."""
        if self._newest is not None and self._newest.code() in _FINAL:
            raise error_of(url, self._newest)

    def error(self, url: str, error: KafkaError) -> ConnectorError:
        """Return the error of a failed call of librdkafka; for a time-out, the newest error in callbacks."""
        vague = error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
        return error_of(url, self._newest if vague and self._newest is not None else error)


def error_of(url: str, error: KafkaError) -> ConnectorError:
    """Convert an error of librdkafka into a permanent or temporary connector error."""
    kind = ConnectorFailedError if error.code() in _FINAL else ConnectorError
    return kind(f"<{url}>: {error.str()} ({error.name()})")


def ask(client: Client, troubles: BrokerErrors, url: str, topic: str) -> ClusterMetadata:
    """Return the cluster metadata of a Kafka topic, as soon as a broker answers.

    Raises:
        ConnectorError: librdkafka reported an error of the brokers, or no broker answered in time.
    """
    for tries_left in reversed(range(round(TIMEOUT_S / _ASK_S))):
        try:
            found: ClusterMetadata = client.list_topics(topic, timeout=_ASK_S)
        except KafkaException as error:
            client.poll(0)  # librdkafka's callbacks
            troubles.raise_final(url)
            if troubles.newest is not None or not tries_left:
                raise troubles.error(url, error.args[0]) from error
        else:
            troubles.forget()
            return found
    raise AssertionError


def configuration(given: Mapping[str, Any], name: str, troubles: BrokerErrors) -> dict[str, Any]:
    """Return the librdkafka configuration for the declaration of a Kafka source or sink."""
    return {
        "client.id": f"quadrill-{name}",
        **given["options"],
        "bootstrap.servers": ",".join(_addresses(given["url"])),
        "error_cb": troubles,
        "socket.connection.setup.timeout.ms": round(TIMEOUT_S * 1000),
        # librdkafka's log is off, because the connector gets the errors in callbacks.
        "log_level": 0,
    }


def require_advertised(metadata: ClusterMetadata, hosts: AllowedHosts) -> None:
    """Check that all brokers in the cluster metadata are allowed hosts, because librdkafka connects to them.

    Raises:
        NetworkRefusedError: the host of a broker is not allowed.
    """
    for broker in metadata.brokers.values():
        host = broker.host or ""
        shown = f"[{host}]" if ":" in host else host
        if not hosts.allows(f"kafka://{shown}:{broker.port}", PORTS):
            raise NetworkRefusedError(
                f"the cluster's broker {shown}:{broker.port} is not on the list of allowed hosts",
                hint="an administrator can allow the host in the setting remote_hosts",
            )
