"""Encrypted connections: servers with a certificate of our own making."""

import shutil
import socket
import subprocess
import time

import pyarrow as pa
import pytest
from pyarrow import flight

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .brokers import Mosquitto
from .brokers import started as started_there
from .servers import Nats, Redis, free_port, started

COLUMNS = Columns("t", None, ("a",))
ROWS = pa.record_batch({"t": [1.0, 2.0], "a": [0.5, 0.25]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Make an authority, and a certificate for 127.0.0.1 that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    folder = tmp_path_factory.mktemp("tls")
    folder.chmod(0o755)

    def call(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "other"):
        call(*new, "-x509", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    call(*new, "-keyout", "key.pem", "-out", "wish.pem", "-subj", "/CN=here")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    call("x509", "-req", "-in", "wish.pem", *signed, "-out", "cert.pem", "-days", "2")
    return folder


class Encrypted:
    """A server of which only the port is asked."""

    def ask(self):
        socket.create_connection(("127.0.0.1", self.port), 1).close()


def both_ways(where, ca):
    """Write rows, and read them; return how many came."""
    sink = open_sink(f"{where('sink')}{ca}", None, None)
    sink.rewind(None)
    sink.write(ROWS)
    sink.sync()
    sink.finish()
    source = open_source(f"{where('source')}{ca}", COLUMNS)
    try:
        return next(batch.num_rows for batch, _ in source.read_after(None) if batch is not None)
    finally:
        source.close()


def unknown(where, ca):
    with pytest.raises(ConfigError, match="certificate is not known"):
        both_ways(where, ca)


def test_redis(tmp_path, files):
    class Server(Encrypted, Redis):
        def command(self):
            tls = ["--port", 0, "--tls-port", self.port, "--tls-auth-clients", "no"]
            tls += ["--tls-cert-file", files / "cert.pem", "--tls-key-file", files / "key.pem"]
            return [*super().command(), *tls, "--tls-ca-cert-file", files / "ca.pem"]

    for server in started(Server, tmp_path / "redis", "redis"):
        time.sleep(0.3)

        def where(_, server=server):
            return server.url("rows").replace("redis", "rediss")

        assert both_ways(where, f"?ca={files}/ca.pem") >= 1
        unknown(where, f"?ca={files}/other.pem")
        with pytest.raises(ConfigError, match="ca is for rediss"):
            open_source(f"{server.url('rows')}?ca={files}/ca.pem", COLUMNS)


def test_nats(tmp_path, files):
    class Server(Encrypted, Nats):
        def command(self):
            tls = ["--tls", "--tlscert", files / "cert.pem", "--tlskey", files / "key.pem"]
            return [*super().command(), *(tls if self.options else [])]

    for server in started(Server, tmp_path / "nats", "nats"):
        time.sleep(0.5)
        server.make("ROWS", "rows")
        server.stop()
        server.options = ("-DV",)
        server.start()

        def where(what, server=server):
            return server.url("ROWS" if what == "source" else "rows")

        assert both_ways(where, f"?ca={files}/ca.pem") >= 1
        unknown(where, f"?ca={files}/other.pem")
        unknown(where, "?tls=yes")
        with pytest.raises(ConfigError, match="holds no certificates"):
            both_ways(where, f"?ca={files}/names")


# of a handshake that failed, the client leaves the socket to the collector of garbage
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_mqtt(tmp_path, files):
    paho = pytest.importorskip("paho.mqtt.client")
    lines = ["allow_anonymous true", f"certfile {files}/cert.pem", f"keyfile {files}/key.pem"]
    for broker in started_there(Mosquitto, tmp_path / "mosquitto", *lines):
        spec = f"mqtt://127.0.0.1:{broker.port}/rows?journal={tmp_path}/in&ca={files}"
        source = open_source(f"{spec}/ca.pem", COLUMNS)
        stream = source.read_after(None)
        next(stream)  # subscribed
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.tls_set(f"{files}/ca.pem")
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        client.publish("rows", b'{"t": 1, "a": 0.5}', qos=1).wait_for_publish()
        assert next(batch.num_rows for batch, _ in stream if batch is not None) == 1
        client.disconnect()
        client.loop_stop()
        source.close()
        wrong = open_source(f"{spec}/other.pem".replace("/in&", "/in2&"), COLUMNS)
        with pytest.raises(ConnectionError):
            next(wrong.read_after(None))
        wrong.close()


def test_flight(files):
    class Server(flight.FlightServerBase):
        def do_get(self, context, ticket):
            return flight.RecordBatchStream(pa.Table.from_batches([ROWS]))

    port = free_port()
    pair = tuple((files / name).read_bytes() for name in ("cert.pem", "key.pem"))
    with Server(f"grpc+tls://127.0.0.1:{port}", tls_certificates=[pair]):
        source = open_source(f"flight://127.0.0.1:{port}/rows?ca={files}/ca.pem", COLUMNS)
        assert next(source.read_after(None))[0].num_rows == 2
        source.close()
        wrong = open_source(f"flight://127.0.0.1:{port}/rows?ca={files}/other.pem", COLUMNS)
        with pytest.raises(ConnectionError):
            next(wrong.read_after(None))
        wrong.close()
    with pytest.raises(ConfigError, match="tls must be yes or no"):
        open_source("flight://127.0.0.1/rows?tls=perhaps", COLUMNS)
