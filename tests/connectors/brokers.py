"""More servers for tests, like those of servers.py."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import Server


class Mosquitto(Server):
    """An MQTT broker that keeps its sessions."""

    program, package = "mosquitto", "mosquitto"

    def __init__(self, folder, *lines):
        folder.mkdir()
        self.lines = lines or ["allow_anonymous true"]
        super().__init__(folder)

    def command(self):
        settings = [
            f"listener {self.port} 127.0.0.1",
            f"user {pwd.getpwuid(os.getuid()).pw_name}",
            "persistence true",
            f"persistence_location {self.folder}/",
            "max_queued_messages 0",
            *self.lines,
        ]
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join(settings) + "\n")
        return [where(self.program), "-c", config]

    def ask(self):
        socket.create_connection(("127.0.0.1", self.port), 1).close()

    def restart(self):
        self.stop(signal.SIGTERM)  # it stores its sessions when it ends
        self.start()


class Postgres(Server):
    """A database server, whose superuser is postgres; only the role other needs a password."""

    program, package = "postgres", "postgresql"

    def __init__(self, folder):
        """Use a folder that another user reaches: pytest closes its own to others, at any time."""
        folder.chmod(0o755)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self.base = folder / "base"
        run_as("postgres", [where("initdb"), "-D", self.base, "-A", "trust", "-U", "postgres"])
        rights = self.base / "pg_hba.conf"
        rights.write_text("host all other 127.0.0.1/32 scram-sha-256\n" + rights.read_text())
        super().__init__(folder)

    def command(self):
        prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        return [
            *(prefix if os.getuid() == 0 else []), where(self.program), "-D", self.base,
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p", self.port,
            "-c", "fsync=off",  # its process is stopped, not the machine
        ]  # fmt: skip

    def connect(self, **more):
        import psycopg

        options = {"host": "127.0.0.1", "port": self.port, "user": "postgres"} | more
        return psycopg.connect(**options, autocommit=True)

    def ask(self):
        self.connect().close()

    def do(self, *statements):
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def read(self, query):
        """Return what the server's own client prints."""
        done = subprocess.run(
            [where("psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-At",
             "-c", query],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    def restart(self):
        self.stop(signal.SIGINT)  # "fast": connections are cut off
        self.start()


def where(program):
    """Find a server where Debian puts it."""
    folders = ["/usr/sbin", "/usr/bin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    return shutil.which(program, path=":".join(folders)) or shutil.which(program)


def started(kind, folder, *arguments):
    """Yield a server, or skip where it cannot be had."""
    if where(kind.program) is None:
        pytest.skip(f"{kind.program} is not installed: apt-get install {kind.package}")
    server = kind(folder, *arguments)
    try:
        yield server
    finally:
        server.stop(signal.SIGINT)


def run_as(user, command, **more):
    """Run a command, as another user where this one is root."""
    prefix = ["runuser", "-u", user, "--"] if os.getuid() == 0 else []
    return subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, **more)


class Kafka:
    """The broker in memory that Kafka's C library brings for tests, in a process of its own."""

    SCRIPT = """
import time
from confluent_kafka import Producer
mock = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1})
brokers = mock.list_topics(timeout=10).brokers.values()
print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
time.sleep(3600)
"""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT], stdout=subprocess.PIPE, text=True
        )
        self.hosts = self.process.stdout.readline().strip()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
