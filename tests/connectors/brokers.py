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

    def restart(self, how=signal.SIGINT):  # "fast": connections are cut off
        self.stop(how)
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
    """The broker in memory that Kafka's C library brings for tests, in a process of its own.

    It fences no producer off, shows aborted messages, and has no users; it can be told to answer a
    request with an error, and to be away.
    """

    SCRIPT = """
import ctypes, sys
from pathlib import Path
import confluent_kafka
(path,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*")
library = ctypes.CDLL(str(path))
def call(name, *arguments, kind=ctypes.c_void_p):
    function = getattr(library, "rd_kafka_" + name)
    function.restype = kind
    return function(*arguments)
text = ctypes.create_string_buffer(512)
client = ctypes.c_void_p(call("new", 0, None, text, ctypes.c_size_t(512)))
cluster = ctypes.c_void_p(call("mock_cluster_new", client, 1))
print(call("mock_cluster_bootstraps", cluster, kind=ctypes.c_char_p).decode(), flush=True)
for line in sys.stdin:
    what, *words = line.split()
    if what == "topic":
        call("mock_topic_create", cluster, words[0].encode(), int(words[1]), 1, kind=int)
    elif what == "error":
        codes = (ctypes.c_int * 1)(int(words[1]))
        push = "mock_push_request_errors_array"
        call(push, cluster, ctypes.c_int16(int(words[0])), ctypes.c_size_t(1), codes, kind=None)
    else:
        call("mock_broker_set_" + what, cluster, 1, kind=int)
    print("done", flush=True)
"""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.hosts = self.process.stdout.readline().strip()
        if not self.hosts:
            self.stop()
            pytest.skip("the C library of confluent_kafka cannot be found")

    def tell(self, *words):
        """Do ``topic NAME PARTITIONS``, answer by ``error REQUEST CODE``, go ``down`` or ``up``."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
