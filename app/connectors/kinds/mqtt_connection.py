"""Connection to an MQTT broker, used by both MQTT source and MQTT sink."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.network.connections import connect

from ..declaration import DeclarationMember, ValueReader, number, one_of, text
from ..errors import ConnectorError, ConnectorFailedError
from ..web import require_url, url_member

PORTS = {"mqtt": 1883, "mqtts": 8883}
_KEEPALIVE_S = 30
_TIMEOUT_S = 10.0
_LOOK_S = 0.25
"""Seconds between two checks whether the MQTT connector has to stop."""

_FINAL = frozenset((129, 130, 132, 133, 134, 135, 138, 140, 143, 144, 154, 155, 157, 158, 161, 162))
"""Reason codes (MQTT 5, 2.4) of refusals that stay until the declaration or the broker is changed: wrong
credentials, missing rights, invalid names, unsupported features, or a moved broker."""
_TAKEN_OVER, _UNSPECIFIED = 142, 128

Sleep: TypeAlias = Callable[[float], None]
"""A function that waits for some seconds, or raises StoppedError if the connector is stopped."""


def _qos(value: Any, name: str) -> int:
    return int(number(0, 1)(value, name))


def authorities(value: Any, name: str) -> str:
    """Read the declaration member ``ca``: certificates of authorities, as PEM text."""
    found = text(value, name)
    try:
        ssl.create_default_context(cadata=found)
    except ssl.SSLError as error:
        raise InputError(
            f"{name} holds no certificate in PEM: {error}",
            code="member",
            hint="It is the text between and with -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----",
        ) from error
    return found


MEMBERS = (
    url_member("the broker: mqtt://host, with TLS mqtts://host"),
    DeclarationMember(
        "qos",
        ValueReader(_qos, "number"),
        "quality of service: 0 delivers at most once, 1 at least once",
        default=1,
    ),
    DeclarationMember("client_id", text, "the client id, which no other client of the broker may use"),
    DeclarationMember("username", text, "the user name at the broker"),
    DeclarationMember("password", text, "the password at the broker", secret=True),
    DeclarationMember(
        "ca", authorities, "trusted certificates in PEM for mqtts; by default those of the system"
    ),
    DeclarationMember("protocol", one_of("5", "3.1.1"), "the version of MQTT", default="5"),
)
"""Members of the declarations of both MQTT sources and MQTT sinks."""


def topic_name(value: Any, name: str) -> str:
    """Read the MQTT topic of a sink, which must not contain wildcards."""
    found = text(value, name)
    if "+" in found or "#" in found or len(found.encode()) > 65_535:
        raise InputError(f"{name} is {found!r}, events go to one topic, without + and #", code="member")
    return found


def topic_filter(value: Any, name: str) -> str:
    """Read the MQTT topic of a subscription: + matches one level, # matches all following levels."""
    found = text(value, name)
    levels = found.split("/")
    wrong = any(("#" in each and each != "#") or ("+" in each and each != "+") for each in levels)
    if wrong or "#" in levels[:-1] or len(found.encode()) > 65_535:
        raise InputError(
            f"{name} is {found!r}, which is no topic: + stands for a whole level, # for all at the end",
            code="member",
        )
    return found


def check_broker(given: Mapping[str, Any], hosts: AllowedHosts) -> None:
    """Raise InputError for an invalid declaration, NetworkRefusedError for a forbidden MQTT broker."""
    require_url(given["url"], hosts, PORTS)
    if given["password"] and not given["username"]:
        raise InputError("a password needs the member username", code="member")
    if given["ca"] and not given["url"].startswith("mqtts:"):
        raise InputError("ca is for mqtts:// only", code="member")


class _PahoClient(Client):
    """A paho client whose name lookup and connect end at a time-out or when the connector is stopped."""

    sleep: Sleep = staticmethod(time.sleep)

    def _create_socket_connection(self) -> socket.socket:
        until = time.monotonic() + _TIMEOUT_S
        return connect(self._host, self._port, until, partial(self.sleep, 0))


class MqttConnection:
    """An MQTT connection with a paho client that never reconnects by itself.

    Attributes:
        client: the paho client.
        is_v5: True if the connection uses MQTT 5.
        session_present: True if the broker still had the session of the client.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        default_id: str,
        *,
        session_s: int = 0,
        receive_maximum: int | None = None,
        on_message: Callable[[MQTTMessage], None] | None = None,
    ) -> None:
        """Make an MQTT client; with MQTT 5, the broker keeps its session for ``session_s`` seconds."""
        self._url = given["url"]
        self._client_id = given["client_id"] or default_id
        self.is_v5: bool = given["protocol"] == "5"
        self._session_s, self._receive_maximum = session_s, receive_maximum
        self._answered = threading.Event()
        self._refused: ReasonCode | None = None
        self._lost: ReasonCode | None = None
        self.session_present = False
        self.client = client = _PahoClient(
            CallbackAPIVersion.VERSION2,
            self._client_id,
            clean_session=None if self.is_v5 else not session_s,
            protocol=MQTTProtocolVersion.MQTTv5 if self.is_v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        if given["username"]:
            client.username_pw_set(given["username"], given["password"])
        if urlsplit(self._url).scheme == "mqtts":
            client.tls_set_context(ssl.create_default_context(cadata=given["ca"]))
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        if on_message is not None:
            client.on_message = lambda _client, _data, message: on_message(message)

    def open(self, sleep: Sleep) -> None:
        """Connect to the MQTT broker.

        Raises:
            ConnectorError: the MQTT broker is unreachable, or refuses the connection temporarily.
            ConnectorFailedError: the MQTT broker refuses the connection permanently, or its certificate is
                not trusted.
        """
        parts = urlsplit(self._url)
        options: dict[str, Any] = {}
        if self.is_v5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = self._session_s
            if self._receive_maximum is not None:
                properties.ReceiveMaximum = self._receive_maximum
            options = {"clean_start": not self._session_s, "properties": properties}
        try:
            assert parts.hostname is not None
            self.client.sleep = sleep
            self.client.connect(parts.hostname, parts.port or PORTS[parts.scheme], _KEEPALIVE_S, **options)
        except ssl.SSLCertVerificationError as error:
            raise ConnectorFailedError(
                f"the certificate of <{self._url}> is not trusted: {error.verify_message}",
                hint="The member ca takes the certificates of its authority",
            ) from error
        except (OSError, ValueError) as error:
            raise ConnectorError(
                f"<{self._url}> cannot be reached: {error or type(error).__name__}"
            ) from error
        self.client.loop_start()
        self.wait(self._answered, sleep, "does not answer")
        if self._refused is not None:
            raise self.refusal("refuses the connection", self._refused)

    def close(self) -> None:
        """Disconnect from the MQTT broker, which keeps a persistent session."""
        client = self.client
        client.disconnect()
        client.loop_stop()
        # Without the reference cycles of its callbacks, Python frees the MQTT client at once, which closes
        # its sockets.
        client.on_connect = client.on_disconnect = client.on_message = None
        client.on_subscribe = client.on_publish = None

    def check(self) -> None:
        """Raise ConnectorError if the MQTT connection has ended, ConnectorFailedError if permanently."""
        if self._lost is None:
            return
        reason = str(self._lost)
        if self._lost.value in (_TAKEN_OVER, _UNSPECIFIED):
            # Some brokers give no reason when they disconnect a client because another client has the same
            # id.
            reason = f"the connection was lost, or another client has connected as {self._client_id!r}"
        kind = ConnectorFailedError if self._lost.value in _FINAL else ConnectorError
        raise kind(f"<{self._url}> the connection ended: {reason}")

    def wait(self, done: threading.Event, sleep: Sleep, what: str) -> None:
        """Wait for an answer of the MQTT broker; raise ConnectorError if no answer arrives in time."""
        for _ in range(round(_TIMEOUT_S / _LOOK_S)):
            if done.wait(_LOOK_S):
                return
            self.check()
            sleep(0)
        raise ConnectorError(f"<{self._url}> {what}")

    def refusal(self, what: str, reason: ReasonCode, *, stays: bool = False) -> ConnectorError:
        """Return the error for a refusal by the MQTT broker; ``stays`` makes the error permanent."""
        hint = "Declare the member protocol as 3.1.1" if reason.value == 132 and self.is_v5 else None
        kind = ConnectorFailedError if stays or reason.value in _FINAL else ConnectorError
        return kind(f"<{self._url}> {what}: {reason}", hint=hint)

    # --- callbacks in the network thread of the MQTT client -----------------------------------

    def _connected(
        self, _client: Client, _data: Any, flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._refused = reason
        self.session_present = flags.session_present
        self._answered.set()

    def _disconnected(
        self, _client: Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        self._lost = reason
