"""MQTT on a real broker: each message learned once, whatever is killed or started again."""

import json
import logging
import shutil
import subprocess
import time

import pytest

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.sources import open_source

from .brokers import Mosquitto, started
from .live import COLUMNS, drive, expected, made, meanwhile
from .servers import free_port

paho = pytest.importorskip("paho.mqtt.client")


@pytest.fixture
def broker(tmp_path):
    yield from started(Mosquitto, tmp_path / "mosquitto")


def publisher(port, name="publisher"):
    """A client of the broker's own protocol, which keeps what is not acknowledged."""
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, name, clean_session=False, protocol=paho.MQTTv311
    )
    client.max_queued_messages_set(0)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def publish(port, messages, pause=0.0, topic="plant/1/flow", qos=2):
    """Publish each message once: with less than 2 the publisher itself repeats some."""
    client = publisher(port)
    published = []
    client.on_publish = lambda *_: published.append(1)
    for number, message in enumerate(messages):
        client.publish(topic, message, qos=qos)  # kept while the broker is away
        while len(published) <= number:
            time.sleep(0.0005)
        time.sleep(pause)
    client.disconnect()
    client.loop_stop()


def address(broker, folder, more="", topic="plant/+/flow"):
    return f"mqtt://127.0.0.1:{broker.port}/{topic}?journal={folder}/journal{more}"


def subscribe(source):
    """Make the session, so that the broker keeps what is published from now on."""
    opened = open_source(source, COLUMNS)
    next(opened.after(None))
    opened.close()


def killed(broker, folder, n, kills, restarts=0, seed=0):
    texts = made(n)
    source = address(broker, folder)
    subscribe(source)

    def restart():
        for _ in range(restarts):
            time.sleep(0.7)
            broker.restart()

    pause = (0.15 * kills + 0.5 + 1.5 * restarts) / n
    with meanwhile(publish, broker.port, texts, pause), meanwhile(restart):
        got = drive(folder / "job", source, n, kills=kills, seed=seed)
    assert got == expected(folder / "alone", texts)


def test_killed(broker, tmp_path):
    killed(broker, tmp_path, 300, 3)


def test_the_broker_is_started_again(broker, tmp_path):
    killed(broker, tmp_path, 300, 1, restarts=1)


@pytest.mark.slow
def test_killed_fifty_times(broker, tmp_path):
    killed(broker, tmp_path, 6000, 50, restarts=10, seed=1)


def test_what_came_while_the_job_was_away(broker, tmp_path):
    texts = made(1000)
    source = address(broker, tmp_path)
    subscribe(source)
    publish(broker.port, texts)
    got = drive(tmp_path / "job", source, 1000, kills=0, batch=1000)
    assert got == expected(tmp_path / "alone", texts)


def test_died_before_the_acknowledgement(broker, tmp_path, monkeypatch):
    """The journal has what the broker sends again; equal messages published twice are two."""
    source = open_source(address(broker, tmp_path), COLUMNS)
    acknowledged = []
    monkeypatch.setattr(source._client, "ack", lambda mid, qos: acknowledged.append(mid))
    stream = source.after(None)
    next(stream)
    publish(broker.port, ["a", "b", "b"])
    while source._journal.end < 3:
        next(stream)
    source.close()
    assert len(acknowledged) == 3
    source = open_source(address(broker, tmp_path), COLUMNS)
    stream = source.after(None)
    next(stream)
    publish(broker.port, ["b", "c"])
    taken, at = [], None
    for messages, _ in source.after(at):
        taken += messages
        if b"c" in messages:
            break
    assert taken == [b"a", b"b", b"b", b"b", b"c"]
    source.close()


def test_a_full_journal_holds_the_broker_back(broker, tmp_path, caplog):
    source = open_source(address(broker, tmp_path, "&journal_mb=16"), COLUMNS)
    stream = source.after(None)
    next(stream)
    messages = [bytes([65 + i]) * (1 << 20) for i in range(40)]
    with meanwhile(publish, broker.port, messages):
        taken = []
        while "is full" not in caplog.text:
            time.sleep(0.05)
        for some, at in stream:
            taken += some
            source.committed({"at": at})
            if len(taken) == 40:
                break
    assert taken == messages
    source.close()


def test_a_message_that_is_too_large(broker, tmp_path):
    source = open_source(address(broker, tmp_path, "&journal_mb=16"), COLUMNS)
    stream = source.after(None)
    next(stream)
    publish(broker.port, [bytes(9 << 20)])
    with pytest.raises(ConfigError, match="larger than a quarter of the journal"):
        for _ in stream:
            pass
    source.close()


def test_retained_and_unacknowledged_messages(broker, tmp_path):
    client = publisher(broker.port)
    client.publish("plant/1/flow", "kept", qos=1, retain=True).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()
    taken = []
    for last in (b"x", b"y"):
        source = open_source(address(broker, tmp_path), COLUMNS)
        at = len(taken)
        stream = source.after(at)
        taken += next(stream)[0]
        publish(broker.port, [last], qos=0)
        for messages, _ in stream:
            taken += messages
            if last in messages:
                break
        source.close()
    assert taken == [b"kept", b"x", b"y"]


def test_refused_by_the_broker(tmp_path, monkeypatch):
    passwords = tmp_path / "passwords"
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("no mosquitto_passwd is installed (Debian package mosquitto)")
    subprocess.run([tool, "-b", "-c", passwords, "me", "right"], check=True, capture_output=True)
    lines = ["allow_anonymous false", f"password_file {passwords}"]
    for server in started(Mosquitto, tmp_path / "mosquitto", *lines):
        spec = address(server, tmp_path, "&password_env=PW").replace("//", "//me@", 1)
        monkeypatch.setenv("PW", "wrong")
        source = open_source(spec, COLUMNS)
        with pytest.raises(ConfigError, match="refuses the connection: Not authorized") as caught:
            next(source.after(None))
        assert "wrong" not in str(caught.value)
        source.close()
        monkeypatch.setenv("PW", "right")
        source = open_source(spec, COLUMNS)
        assert next(source.after(None)) == ([], 0)
        source.close()


def test_nothing_listens(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    port = free_port()
    source = open_source(f"mqtt://127.0.0.1:{port}/a?journal={tmp_path}/j", COLUMNS)
    with pytest.raises(ConnectionError, match="cannot connect"):
        next(source.after(None))
    source.close()


def test_a_poisoned_message(broker, tmp_path):
    texts = made(30)
    source = address(broker, tmp_path)
    subscribe(source)
    publish(broker.port, [*texts[:10], "{", b"\xff\xff\xff\xff", *texts[10:]])
    out, _ = drive(tmp_path / "job", source, 32, kills=0)
    assert len(out) == 30
    dead = [json.loads(line) for line in (tmp_path / "job" / "dead.jsonl").read_text().splitlines()]
    assert [row["row"] for row in dead] == [10, 11]


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("mqtt://127.0.0.1?journal={0}", "must be mqtt:..host.TOPIC"),
        ("mqtt://127.0.0.1/a", "name a folder for them"),
        ("mqtt://me:pw@127.0.0.1/a", "holds a password"),
    ],
)
def test_addresses_that_cannot_be_used(spec, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        open_source(spec.format(tmp_path / "j"), COLUMNS)
