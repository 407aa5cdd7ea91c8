"""What a request must pass before anybody computes."""

import asyncio

import pytest

from syncwall.web import guard
from syncwall.web.guard import COOKIE, HEADERS, MAX_BODY_BYTES, Guard

NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
TOKEN = "a-long-token"


async def echo(scope, receive, send):
    """An application that reads the body and tells its length."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


class Asked:
    """One request, answered by a guard without a network."""

    def __init__(self, path="/", method="GET", query="", headers=None, parts=(b"",), wait_s=0.0):
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [
                (key.encode(), value.encode("latin-1"))
                for key, value in {"host": "127.0.0.1:8321", **(headers or {})}.items()
            ],
        }
        self.parts, self.wait_s, self.sent = list(parts), wait_s, []
        self.done = asyncio.Event()

    async def receive(self):
        if not self.parts:
            await self.done.wait()
            return {"type": "http.disconnect"}
        await asyncio.sleep(self.wait_s)
        body = self.parts.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.parts)}

    async def send(self, message):
        self.sent.append(message)

    def of(self, app=echo, names=NAMES, token=None, **proxy):
        async def whole():
            await Guard(app, names, token, **proxy)(self.scope, self.receive, self.send)

        asyncio.run(whole())
        return self

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return {key.decode(): value.decode("latin-1") for key, value in self.sent[0]["headers"]}

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent[1:])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8321", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:8321", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8321", 421),
        ("localhost.evil", 421),
        ("", 421),
        ("evil@127.0.0.1:1:2", 421),
        ("127.0.0.1:junk", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1:1234567", 421),
        ("[::1", 421),
        ("[127.0.0.1]x", 421),
        ("localhost:1 ", 421),
        ("127.0.0.1/", 421),
        ("x" * 9999, 421),
    ],
)
def test_only_its_own_names_are_answered(host, status):
    assert Asked(headers={"host": host}).of().status == status


def test_any_name_is_answered_where_that_was_allowed():
    assert Asked(headers={"host": "training.example"}).of(names=None).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # a program
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8321"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),  # another server of the same machine
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8321", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_ask(headers, status):
    assert Asked(method="POST", headers=headers).of().status == status
    assert Asked(method="OPTIONS", headers=headers).of().status == status
    assert Asked(headers=headers).of().status == 200  # reading the answer is refused by the headers


PROXY = {"names": NAMES | {"sync.example"}, "origins": frozenset({"sync.example"})}


@pytest.mark.parametrize("host", ["sync.example", "127.0.0.1:8321"], ids=["kept", "rewritten"])
@pytest.mark.parametrize(
    ("origin", "more", "status"),
    [
        ("https://sync.example", {}, 200),
        ("https://sync.example", {"sec-fetch-site": "same-origin"}, 200),
        ("https://sync.example", {"x-forwarded-proto": "https"}, 200),
        ("http://sync.example", {"x-forwarded-proto": "https"}, 403),  # anybody in between
        ("https://sync.example:444", {}, 403),
        ("https://evil.example", {"x-forwarded-proto": "https"}, 403),
        ("https://evil.example", {"x-forwarded-host": "evil.example"}, 403),
    ],
)
def test_pages_behind_a_proxy_can_ask_and_others_cannot(host, origin, more, status):
    headers = {"host": host, "origin": origin, **more}
    assert Asked(method="POST", headers=headers).of(**PROXY).status == status


def test_the_cookie_goes_over_tls_only_where_there_is_tls():
    for more, secure in (
        ({}, False),
        ({"x-forwarded-proto": "http"}, False),
        ({"x-forwarded-proto": "https"}, True),
        ({"x-forwarded-proto": "https,http"}, True),
    ):
        asked = Asked(query=f"token={TOKEN}", headers=more).of(token=TOKEN)
        assert asked.headers["set-cookie"].endswith("; Secure") == secure


async def where(scope, receive, send):
    """An application that tells its path."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/team/sync/wall", b"/wall"),
        ("/team/sync/", b"/"),
        ("/wall", b"/wall"),
        ("/", b"/"),
        ("/team/synced", b"/team/synced"),
        ("/team", b"/team"),
        ("/team/sync//x", b"//x"),
    ],
)
def test_the_path_of_a_proxy_is_taken_off_unless_it_is_off_already(path, inside):
    assert Asked(path).of(where, root="/team/sync").body == inside


def test_the_path_of_a_proxy_is_kept_in_redirections():
    asked = Asked("/team/sync").of(root="/team/sync")
    assert (asked.status, asked.headers["location"]) == (303, "/team/sync/")
    for path in ("/team/sync/wall", "/wall"):
        asked = Asked(path, query=f"a=1&token={TOKEN}").of(token=TOKEN, root="/team/sync")
        assert asked.headers["location"] == "/team/sync/wall?a=1"
        assert "; Path=/team/sync;" in asked.headers["set-cookie"]
    assert Asked("/team/sync").of(token=TOKEN, root="/team/sync").status == 401


@pytest.mark.parametrize("parts", [1, 3, 600])
def test_a_large_body_is_refused_with_and_without_its_length(parts):
    body = [b"x" * (MAX_BODY_BYTES // parts + 1)] * parts
    asked = Asked(method="POST", parts=body).of()
    assert (asked.status, asked.headers["connection"]) == (413, "close")
    length = str(MAX_BODY_BYTES + 1)
    assert Asked(method="POST", headers={"content-length": length}).of().status == 413
    assert Asked(method="POST", parts=[b"x" * MAX_BODY_BYTES]).of().body == b"262144"


def test_a_large_body_is_refused_even_if_the_application_hides_it():
    async def hides(scope, receive, send):
        try:
            await echo(scope, receive, send)
        except Exception:  # noqa: BLE001 - as FastAPI does when it reads a body
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    assert Asked(method="POST", parts=[b"x" * 10**6]).of(hides).status == 413


def test_a_slow_body_is_refused_however_it_drips(monkeypatch):
    monkeypatch.setattr(guard, "BODY_S", 0.2)
    for wait_s, parts in ((5.0, [b"x"]), (0.03, [b"x"] * 100)):
        assert Asked(method="POST", parts=parts, wait_s=wait_s).of().status == 408


def test_a_visitor_who_goes_away_ends_the_work():
    ended = []

    async def long(scope, receive, send):
        await receive()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    asked = Asked(method="POST", parts=[b"{}"])
    asked.done.set()
    assert asked.of(long).sent == []
    assert ended == [True]


def test_a_stream_hears_that_its_visitor_has_gone():
    heard: list[str] = []

    async def stream(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        asked.done.set()
        heard.append((await receive())["type"])

    asked = Asked(method="POST", parts=[b"{}"])
    assert asked.of(stream).status == 200
    assert heard == ["http.disconnect"]


def test_an_error_of_the_application_is_not_hidden():
    async def broken(scope, receive, send):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Asked().of(broken)


def test_every_answer_has_the_headers():
    for asked in (
        Asked().of(),
        Asked(headers={"host": "evil"}).of(),
        Asked(method="POST", headers={"origin": "http://evil"}).of(),
        Asked().of(token=TOKEN),
        Asked(query=f"token={TOKEN}").of(token=TOKEN),
        Asked(method="POST", parts=[b"x" * 10**6]).of(),
    ):
        assert HEADERS.items() <= asked.headers.items()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer {TOKEN}"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": "Bearer \xff"}, 401),
        ({"cookie": f"{COOKIE}={TOKEN}"}, 200),
        ({"cookie": f"a=b; {COOKIE}={TOKEN}; c=d"}, 200),
        ({"cookie": f"{COOKIE}=wrong"}, 401),
        ({"cookie": f"{COOKIE}={TOKEN[:-1]}"}, 401),
        ({"cookie": "\x00=;;=\xff"}, 401),
    ],
)
def test_only_who_has_the_token_comes_in(headers, status):
    assert Asked(headers=headers).of(token=TOKEN).status == status


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address():
    asked = Asked("/wall", query=f"nodes=8&token={TOKEN}&model=a%26b").of(token=TOKEN)
    assert asked.status == 303
    assert asked.headers["location"] == "/wall?nodes=8&model=a%26b"
    cookie = asked.headers["set-cookie"]
    assert cookie == f"{COOKIE}={TOKEN}; Path=/; HttpOnly; SameSite=Lax"
    assert Asked(query="token=wrong").of(token=TOKEN).status == 401
    assert Asked(method="POST", query=f"token={TOKEN}").of(token=TOKEN).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "///evil.example/a",
        "/\t/evil.example",
        "/\n/evil",
        "\\\\evil",
        "/a\r\nset-cookie: x=y",
        "/ü",
    ],
)
def test_the_redirection_never_leaves_this_server(path):
    asked = Asked(path, query=f"token={TOKEN}").of(token=TOKEN)
    where = asked.headers["location"]
    assert where.startswith("/")
    assert not where.startswith("//")
    assert where.isascii()
    assert where.isprintable()
    assert "\\" not in where


def test_sockets_other_than_http_are_not_answered():
    asked = Asked()
    asked.scope["type"] = "websocket"
    assert asked.of().sent == []


@pytest.mark.parametrize("origin", ["http://[", "null", "http://", "javascript:1", "http://127.0.0.1@evil"])
def test_a_strange_origin_is_another_site(client, run, origin):
    answer = client.post("/api/predict", json=run, headers={"origin": origin})
    assert answer.status_code == 403
