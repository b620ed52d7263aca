"""An object store and a web server for tests: what is in a dict, on a free port of this machine."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class _Handler(BaseHTTPRequestHandler):
    """As much of S3 as pyarrow needs to list and to read; also plain HTTP."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each answer is a head and a body

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET(body=False)

    def do_GET(self, *, body=True):
        store = self.server.store
        parts = urlsplit(self.path)
        path, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        store.asked.append((self.command, path, dict(self.headers)))
        if store.token is not None and self.headers.get("Authorization") != f"Bearer {store.token}":
            return self._answer(401, b"")
        if store.failures > 0 and self.command == "GET":
            store.failures -= 1
            self.close_connection = True
            return self.connection.close()
        if "list-type" in query:
            return self._answer(200, self._listing(path, query), "application/xml", body=body)
        if path not in store.files:
            return self._answer(404, b"", body=body)
        data = store.files[path]
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if store.ranges and first:
            end = min(int(last or len(data) - 1), len(data) - 1)
            head = {"Content-Range": f"bytes {first}-{end}/{len(data)}"}
            return self._answer(206, data[int(first) : end + 1], body=body, head=head)
        return self._answer(200, data, body=body)

    def _listing(self, bucket, query):
        prefix, split = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys, folders = [], set()
        for name in sorted(self.server.store.files):
            key = name.removeprefix(f"{bucket}/")
            if name.startswith(f"{bucket}/") and key.startswith(prefix):
                rest = key[len(prefix) :]
                if split and split in rest:
                    folders.add(prefix + rest.partition(split)[0] + split)
                else:
                    keys.append((key, len(self.server.store.files[name])))
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
            "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, size in keys
        )
        entries += "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in sorted(folders)
        )
        return (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>{entries}"
            "</ListBucketResult>"
        ).encode()

    def _answer(self, code, data, kind="application/octet-stream", *, body=True, head=()):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        for name, value in dict(head).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


class Store:
    """Files by path, ``bucket/key``."""

    def __init__(self, files, *, token=None, ranges=True):
        self.files, self.token, self.ranges = files, token, ranges
        self.failures = 0  # requests to come that get no answer
        self.asked = []

    def s3(self, path, port=None):
        where = f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=here"
        return f"s3://{path}?{where}"

    def http(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def serving(store):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.store = store
    store.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
