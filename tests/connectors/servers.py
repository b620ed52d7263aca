"""Real servers for tests: each on a free port of this machine, in a folder of its own."""

import asyncio
import contextlib
import random
import shutil
import signal
import socket
import subprocess
import time

import pytest

PACKAGES = {"nats-server": "nats-server", "redis-server": "redis-server"}  # of Debian


def free_port():
    """Find a port that nothing listens on, and that no client is given by chance.

    One who asks again and again for a port among those that clients get may connect to itself.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A server that can be killed and started again on what it stored."""

    program: str

    def __init__(self, folder, *options):
        self.folder, self.options = folder, options
        self.port = free_port()
        self.process = None
        self.start()

    def command(self):
        raise NotImplementedError

    def start(self):
        self.process = subprocess.Popen(
            list(map(str, self.command())),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + 20
        while True:
            try:
                self.ask()
            except Exception:
                assert time.monotonic() < end, f"{self.program} does not answer"
                time.sleep(0.02)
            else:
                return

    def stop(self, number=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=20)
            self.process = None

    def ask(self):
        """Raise while the server is not ready."""
        raise NotImplementedError


class Nats(Server):
    program = "nats-server"

    def command(self):
        where = ["-a", "127.0.0.1", "-p", self.port, "-js", "-sd", self.folder]
        return [self.program, *where, *self.options]

    def url(self, path):
        return f"nats://127.0.0.1:{self.port}/{path}"

    def do(self, work):
        """Run ``await work(jetstream)`` with a connection of its own."""
        from nats.aio.client import Client

        async def connected():
            client = Client()
            try:
                await client.connect(
                    f"nats://127.0.0.1:{self.port}", allow_reconnect=False, connect_timeout=1,
                    error_cb=quiet, user="me", password="correct", max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                )  # fmt: skip
                return await work(client.jetstream())
            finally:
                with contextlib.suppress(Exception):
                    await client.close()

        async def quiet(_):
            pass

        return asyncio.run(connected())

    def ask(self):
        self.do(lambda stream: stream.account_info())

    def make(self, name, *subjects):
        from nats.js.api import StreamConfig

        self.do(lambda stream: stream.add_stream(StreamConfig(name=name, subjects=list(subjects))))

    def publish(self, subject, messages):
        async def work(stream):
            for start in range(0, len(messages), 256):
                sent = [
                    await stream.publish_async(subject, message)
                    for message in messages[start : start + 256]
                ]
                await asyncio.gather(*sent)

        self.do(work)

    def read(self, name, subject):
        """Return all messages of a subject, by the number each has in the stream."""

        async def work(stream):
            last = (await stream.stream_info(name)).state.last_seq
            found = [await stream.get_msg(name, number) for number in range(1, last + 1)]
            return [message.data for message in found if message.subject == subject]

        return self.do(work)


class Redis(Server):
    program = "redis-server"

    def command(self):
        self.folder.mkdir(exist_ok=True)
        return [
            self.program, "--bind", "127.0.0.1", "--port", self.port, "--dir", self.folder,
            "--appendonly", "yes", "--appendfsync", "always", "--save", "",
        ]  # fmt: skip

    def url(self, path):
        return f"redis://127.0.0.1:{self.port}/{path}"

    @property
    def client(self):
        import redis

        return redis.Redis(port=self.port, socket_timeout=5)

    def ask(self):
        assert self.client.ping()

    def publish(self, key, messages):
        with self.client as client:
            for start in range(0, len(messages), 256):
                pipe = client.pipeline(transaction=False)
                for message in messages[start : start + 256]:
                    pipe.xadd(key, {"data": message})
                pipe.execute()

    def read(self, key):
        """Return all messages, by the server's own tool."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), "--raw", "xrange", key, "-", "+"],
            capture_output=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()[2::3]


def started(kind, folder, client):
    """Yield a server, or skip where it cannot be had."""
    pytest.importorskip(client, reason=f"the Python package {client} is not installed")
    if shutil.which(kind.program) is None:
        pytest.skip(f"{kind.program} is not installed: apt-get install {PACKAGES[kind.program]}")
    server = kind(folder)
    try:
        yield server
    finally:
        server.stop(signal.SIGTERM)
