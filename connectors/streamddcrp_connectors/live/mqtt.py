"""Rows published on an MQTT topic: ``mqtt://host/plant/+/flow?journal=FOLDER``.

A message is acknowledged (quality of service 1) only after it is in the journal. The broker keeps
the session while the job is away. If a job died between journal and acknowledgement, the message
that the broker repeats is recognised by its duplicate flag, number and content. The broker must
speak MQTT 5 and queue enough: mosquitto drops messages beyond ``max_queued_messages`` (1000) unless
it is set to 0, and needs ``persistence true``.
"""

import hashlib
import logging
import threading
import time
import zlib
from collections import deque
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.journal import Entry, JournalFullError
from streamddcrp_connectors.live.messages import JOURNAL, JournaledSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns

IN_FLIGHT = 1000  # unacknowledged messages; the journal remembers four times as many
AT_ONCE = 1 << 20  # bytes, or one message, stored in the journal at once
UNASKED = 10_000  # most messages of quality of service 0 that wait
_FOREVER = 0xFFFFFFFF  # seconds for which the broker keeps the session
_CONNECTING = 3.0  # seconds
_LOG = logging.getLogger("streamddcrp")


class MqttSource(JournaledSource):
    """Messages of ``mqtt://user@host:port/topic?journal=FOLDER&password_env=NAME``.

    The topic may contain the wildcards ``+`` and ``#``. The name of the session follows from the
    address, so jobs with different journals have different ones.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(
            spec.replace("#", "%23"),
            port=1883,
            options=(*JOURNAL, "tls", "ca"),
            secrets=("password",),
        )
        self._topic = address.require("TOPIC", one_host=False)
        password = address.secret("password")
        super().__init__(address, columns, batch_rows)
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:12]
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            f"streamddcrp-{digest}",
            protocol=paho.MQTTv5,
            manual_ack=True,
        )
        if address.user is not None:
            self._client.username_pw_set(address.user, password)
        if (tls := address.tls) is not None:
            self._client.tls_set_context(tls)
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 5)
        self._host, self._port = address.hosts[0]
        self._come: deque[Any] = deque()
        self._change = threading.Condition()
        self._subscribed = self._started = self._closed = False
        self._refused: str | None = None  # permanent
        self._away = "no answer"  # temporary
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, daemon=True)

    def receive(self, *, drained: bool) -> None:
        if not self._started:
            self._start()
        with self._change:
            if self._subscribed or not drained:
                return
            self._change.wait_for(lambda: self._subscribed or self._refused, _CONNECTING)
            if self._refused is not None:
                raise ConfigError(f"{self.name}: {self._refused}")
            if not self._subscribed:
                raise ConnectionError(self._away)

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._started:
            self._writer.join()
            self._client.disconnect()
            self._client.loop_stop()
        super().close()

    def _start(self) -> None:
        self._started = True
        self._writer.start()
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = _FOREVER
        session.ReceiveMaximum = IN_FLIGHT
        self._client.connect_async(
            self._host, self._port, clean_start=False, properties=session, keepalive=30
        )
        self._client.loop_start()

    def _write(self) -> None:
        """Store messages in the journal, flush those that came together, and acknowledge."""
        while True:
            with self._change:
                self._change.wait_for(lambda: self._come or self._closed)
                if self._closed:
                    return
                come, n_bytes = [], 0
                while self._come and n_bytes < AT_ONCE:
                    come.append(self._come.popleft())
                    n_bytes += len(come[-1].payload)
            if self._put([_entry(message) for message in come]):
                for message in come:
                    if message.qos:
                        self._client.ack(message.mid, message.qos)

    def _put(self, entries: list[Entry]) -> bool:
        """Wait while the journal is full: the broker sends no more than is in flight."""
        reported = False
        while not self._closed:
            try:
                self._journal.put_all(entries)
            except JournalFullError as error:
                if not reported:
                    _LOG.warning("%s: %s; the broker keeps the rest until then", self.name, error)
                reported = True
                time.sleep(0.1)
            except ConfigError as error:
                self._refuse(str(error))
                return False
            else:
                return True
        return False

    def _refuse(self, why: str) -> None:
        with self._change:
            self._refused, self._subscribed = why, False
            self._change.notify_all()

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure:
            with self._change:
                text = str(reason)
                if text in ("Server unavailable", "Server busy", "Use another server"):
                    self._away = text
                else:
                    self._refuse(f"the broker refuses the connection: {text}")
            return
        if not flags.session_present and self._journal.end:
            _LOG.warning(
                "%s: the broker has no session of this job: messages published since the last "
                "connection are lost",
                self.name,
            )
        new_only = SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        client.subscribe(self._topic, options=SubscribeOptions(qos=1, retainHandling=new_only))

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, more: Any) -> None:
        if reasons[0].is_failure:
            self._refuse(f"the broker refuses the topic {self._topic!r}: {reasons[0]}")
            return
        with self._change:
            self._subscribed = True
            self._change.notify_all()

    def _on_connect_fail(self, client: Any, data: Any) -> None:
        self._away = "cannot connect"

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        with self._change:
            self._subscribed, self._away = False, str(reason)

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        with self._change:
            if message.qos == 0 and len(self._come) >= UNASKED:
                self._dropped += 1
                if self._dropped & (self._dropped - 1) == 0:
                    _LOG.warning(
                        "%s: %d messages of quality of service 0 came too fast and were dropped",
                        self.name,
                        self._dropped,
                    )
                return
            self._come.append(message)
            self._change.notify_all()


def _entry(message: Any) -> Entry:
    """Identify a message, and its repetition, by its number and content."""
    content = zlib.crc32(message.payload, zlib.crc32(message.topic.encode()))
    key = f"{message.mid}:{content}".encode() if message.qos else b""
    return Entry(bytes(message.payload), key, first=not message.dup)
