"""Bytes that no browser sends: each is refused, or answered as what it says and nothing else."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from syncwall.web.application import Options, Server, application
from syncwall.web.event_streams import Streams

OWN = b"host: 127.0.0.1\r\n"
END = b"connection: close\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
INNER = b"GET /static/app.css HTTP/1.1\r\nhost: evil.example\r\n\r\n"
"""A request inside another one."""


@pytest.fixture(scope="module")
def where() -> Iterator[tuple[str, int]]:
    """The application on a socket, without its workers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = Server(application(Options()), Streams())
        server.config.lifespan = "off"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.005)
        asked(listening.getsockname(), get(), timeout_s=30)  # makes the templates
        yield listening.getsockname()
        server.should_exit = True
        thread.join()


def asked(where: tuple[str, int], said: bytes, timeout_s: float = 0.3) -> bytes:
    """All that comes back until the server hangs up, or for a while."""
    found = b""
    with socket.create_connection(where, timeout=timeout_s) as one:
        one.sendall(said)
        try:
            while part := one.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
    return found


def statuses(answer: bytes) -> list[int]:
    """Those of all answers, one after the other."""
    lines = answer.split(b"HTTP/1.1 ")[1:]
    return [int(line[:3]) for line in lines]


def get(path: bytes = b"/", head: bytes = OWN) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\n" + head + END


def post(head: bytes, body: bytes = b"{}", host: bytes = OWN) -> bytes:
    return b"POST /api/predict HTTP/1.1\r\n" + host + head + b"\r\n" + body


LENGTH = b"content-length: 2\r\n"
CASES: dict[str, tuple[bytes, list[int]]] = {
    "an own name": (get(), [200]),
    "no host": (get(head=b""), [400]),
    "no host in HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", [421]),
    "two hosts": (get(head=OWN + b"host: evil.example\r\n"), [400]),
    "another host": (get(head=b"host: evil.example\r\n"), [421]),
    "a port that is none": (get(head=b"host: 127.0.0.1:junk\r\n"), [421]),
    "an empty port": (get(head=b"host: 127.0.0.1:\r\n"), [421]),
    "a user in the host": (get(head=b"host: 127.0.0.1@evil.example\r\n"), [421]),
    "a host with a path": (get(head=b"host: 127.0.0.1/evil\r\n"), [421]),
    "a forwarded host": (get(head=b"host: evil\r\nx-forwarded-host: 127.0.0.1\r\n"), [421]),
    "a host in the target": (get(b"http://evil.example/"), [404]),
    "a target without a path": (get(b"*"), [404]),
    "CONNECT": (b"CONNECT evil.example:443 HTTP/1.1\r\n" + OWN + END, [404]),
    "another origin": (post(b"origin: http://evil.example\r\n" + LENGTH + END[:-2]), [403]),
    "no origin at all": (post(b"origin: null\r\n" + LENGTH + END[:-2]), [403]),
    "an origin with more": (post(b"origin: http://127.0.0.1.evil\r\n" + LENGTH + END[:-2]), [403]),
    "two origins": (
        post(b"origin: http://127.0.0.1\r\norigin: http://evil\r\n" + LENGTH + END[:-2]),
        [403],
    ),
    "two origins, the other first": (
        post(b"origin: http://evil\r\norigin: http://127.0.0.1\r\n" + LENGTH + END[:-2]),
        [403],
    ),
    "a form of another site": (post(b"sec-fetch-site: cross-site\r\n" + LENGTH + END[:-2]), [403]),
    "dots": (get(b"/static/../application.py"), [404]),
    "written dots": (get(b"/static/%2e%2e/application.py"), [404]),
    "written slashes": (get(b"/static/..%2f..%2f..%2fetc%2fpasswd"), [404]),
    "twice written dots": (get(b"/static/%252e%252e/application.py"), [404]),
    "an end of text": (get(b"/static/app.css%00.png"), [404]),
    "an absolute file": (get(b"/static//etc/passwd"), [404]),
    "a written new line": (get(b"/%0d%0aset-cookie:%20a=b"), [404]),
    "a folded header": (get(head=OWN + b"x: a\r\n set-cookie: b\r\n"), [200]),
    "a space before the colon": (get(head=OWN + b"x : a\r\n"), [400]),
    "a bare end of line in a header": (get(head=OWN + b"x: a\rb: c\r\n"), [400]),
    "a length and chunks": (
        post(b"content-length: 4\r\n" + CHUNKED, b"0\r\n\r\n" + INNER),
        [400],
    ),
    "two lengths": (post(LENGTH + b"content-length: 99\r\n", b"{}" + INNER), [400]),
    "a length with a sign": (post(b"content-length: +2\r\n", b"{}" + INNER), [400]),
    "chunks of another kind": (post(b"transfer-encoding: gzip, chunked\r\n", b"0\r\n\r\n"), [400]),
    "an endless chunk length": (post(CHUNKED, b"f" * 70_000 + b"\r\n"), [400]),
    "headers without end": (get(head=OWN + b"x: " + b"a" * 70_000)[:-4], [400]),
    "a second request of another host": (b"GET / HTTP/1.1\r\n" + OWN + b"\r\n" + INNER, [200, 421]),
    "an upgrade": (get(head=OWN + b"upgrade: websocket\r\nconnection: upgrade\r\n"), [200]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [421, 400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + b"\r\n\r\n", [400]),
}


@pytest.mark.parametrize("name", CASES)
def test_raw_bytes_are_refused_or_mean_what_they_say(where, name):
    said, expected = CASES[name]
    answer = asked(where, said)
    assert statuses(answer) == expected
    assert b"root:" not in answer
    assert b"import " not in answer
    assert b"\r\nset-cookie" not in answer.lower()
