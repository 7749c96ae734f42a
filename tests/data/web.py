"""A small web server on this machine, with faults to order."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Web(ThreadingHTTPServer):
    """Serves ``files``; ``requests`` lists the Range header of every request (or None).

    ``cut``: bytes after which the next answer breaks off. ``etag``: version of the files.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.requests: list[str | None] = []
        self.cut: int | None = None
        self.etag = '"1"'
        self.ranges = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        body = self.server.files.get(self.path)
        if body is None:
            return self.send_error(404)
        whole, start = len(body), 0
        same = self.headers.get("If-Range") == self.server.etag
        if wanted and same and self.server.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= whole:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{whole}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(whole - start))
        self.send_header("ETag", self.server.etag)
        self.end_headers()
        cut, self.server.cut = self.server.cut, None
        self.wfile.write(body[start : None if cut is None else start + cut])
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serve() -> Iterator[Web]:
    """Runs a :class:`Web` for a while."""
    server = Web()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
