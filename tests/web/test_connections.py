"""Connections that wait: none of them keeps others out. Real sockets, short times."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from syncwall.web import guard
from syncwall.web.application import Server
from syncwall.web.event_streams import Streams

ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n"
LARGE_BYTES = 20_000_000


async def app(scope, receive, send):
    """Answers `/`, reads a body, or sends more than a socket takes."""
    if scope["type"] != "http":
        return
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    if scope["path"] == "/long":
        await asyncio.sleep(0.5)
    body = bytes(LARGE_BYTES) if scope["path"] == "/large" else b"here"
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(most: int = 20) -> Iterator[tuple[str, int]]:
    """A server with little room."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = Server(app, Streams(), most)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def short(monkeypatch):
    """The same rules in less time."""
    monkeypatch.setattr(guard, "IDLE_S", 0.3)
    monkeypatch.setattr(guard, "WRITE_S", 0.4)


def opened(where, said=b""):
    """A connection on which `said` was sent."""
    one = socket.create_connection(where, timeout=5)
    one.sendall(said)
    return one


def answer(one, said=ASK):
    """What comes for `said` until there is enough of it."""
    one.sendall(said)
    found = b""
    with suppress(ConnectionError):
        while not found.endswith(b"here") and (part := one.recv(65536)):
            found += part
    return found


def closed_after_s(one, drip=b""):
    """Seconds until the server hangs up."""
    before = time.monotonic()
    one.settimeout(0.05)
    while time.monotonic() - before < 3:
        try:
            if drip:
                one.sendall(drip)
            if not one.recv(10):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - before


@pytest.mark.parametrize(
    ("said", "drip"),
    [
        (b"", b""),
        (b"GET / HT", b""),
        (b"GET / HTTP/1.1\r\nhost: a\r\n", b"x: y\r\n"),
    ],
    ids=["silent", "half a line", "slow headers"],
)
@pytest.mark.usefixtures("short")
def test_who_does_not_ask_is_closed_in_time(said, drip):
    with serving() as where, opened(where, said) as one:
        assert 0.2 < closed_after_s(one, drip) < 2.0


@pytest.mark.usefixtures("short")
def test_who_was_answered_may_ask_again_for_a_while():
    with serving() as where, opened(where) as one:
        for _ in range(3):
            assert answer(one).endswith(b"here")
            time.sleep(0.15)
        assert closed_after_s(one) < 2.0


@pytest.mark.usefixtures("short")
def test_a_body_that_the_answer_did_not_need_cannot_drip_for_ever():
    with serving() as where, opened(where) as one:
        assert answer(one, b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 9999\r\n\r\n")
        assert closed_after_s(one, b"x") < 2.0


@pytest.mark.usefixtures("short")
def test_an_answer_that_takes_longer_than_idling_may_comes():
    with serving() as where, opened(where) as one:
        assert answer(one, ASK.replace(b"/", b"/long", 1)).endswith(b"here")


@pytest.mark.parametrize("end", [b"", b"connection: close\r\n"])
@pytest.mark.usefixtures("short")
def test_who_does_not_read_is_closed_in_time(end):
    with serving() as where, opened(where, LARGE[:-2] + end + b"\r\n") as one:
        time.sleep(0.8)
        assert taken(one) < LARGE_BYTES


@pytest.mark.usefixtures("short")
def test_who_reads_slowly_gets_everything():
    with serving() as where, opened(where, LARGE) as one:
        assert taken(one, pause_s=0.03) >= LARGE_BYTES


@pytest.mark.usefixtures("short")
def test_what_is_unsent_is_not_kept_by_the_system_either():
    with serving() as where, opened(where, LARGE) as one:
        time.sleep(0.8)
        with pytest.raises(ConnectionResetError):
            b"".join(iter(lambda: one.recv(65536), b""))


def taken(one, pause_s=0.0):
    """How many bytes come before the server hangs up."""
    count, part = 0, b"x"
    one.settimeout(2.0)
    with suppress(TimeoutError, ConnectionError):
        while part and count < LARGE_BYTES:
            part = one.recv(1_000_000)
            count += len(part)
            time.sleep(pause_s)
    return count


@pytest.mark.parametrize(
    "said", [b"", b"GET /", LARGE, ASK, b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n"]
)
def test_many_who_wait_do_not_keep_others_out(said):
    with serving(most=20) as where, ExitStack() as kept:
        for _ in range(60):
            kept.enter_context(opened(where, said))
        for _ in range(3):
            assert soon_answered(where)


def soon_answered(where):
    """Whether somebody who asks again when told that all are busy is answered within seconds."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with opened(where) as one:
            if answer(one).startswith(b"HTTP/1.1 200"):
                return True
        time.sleep(0.05)
    return False


def test_who_is_being_answered_is_not_pushed_out_by_who_comes():
    with serving(most=4) as where:
        asked = [opened(where, ASK.replace(b"/", b"/long", 1)) for _ in range(2)]
        time.sleep(0.1)
        with opened(where) as other:  # half of the room for one address, all of it at work
            assert answer(other).startswith(b"HTTP/1.1 503")
        for one in asked:
            assert answer(one, b"").endswith(b"here")
            one.close()


def test_little_is_held_for_those_who_do_not_read(monkeypatch):
    monkeypatch.setattr(guard, "UNSENT_BYTES", 3 * LARGE_BYTES)
    with serving() as where, ExitStack() as kept:
        many = [kept.enter_context(opened(where, LARGE)) for _ in range(8)]
        time.sleep(0.3)
        whole = sum(taken(one) >= LARGE_BYTES for one in many)
        assert 1 <= whole <= 5


def test_nothing_is_written_about_it(capfd):
    with serving(most=4) as where:
        many = [opened(where, b"\x00junk\r\n\r\n") for _ in range(20)]
        upgrade = b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
        with opened(where) as one:
            assert answer(one, ASK[:-2] + upgrade).startswith(b"HTTP/1.1 200")
        for one in many:
            one.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("soft", "hard", "most", "raised"),
    [
        (1024, 1024, 384, None),
        (1024, 4096, 1500, 3256),
        (1024, -1, 1500, 3256),
        (100_000, 100_000, 1500, None),
        (64, 64, 16, None),
        (-1, -1, 1500, None),
    ],
)
def test_descriptors_are_left_for_other_things(monkeypatch, soft, hard, most, raised):
    resource = pytest.importorskip("resource")
    now = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: now.append(limits))
    assert guard.most_connections() == most
    assert now == ([(raised, hard)] if raised else [])
