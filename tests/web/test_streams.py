"""Long work: lines as they come, an end when nobody listens, and no more at once than allowed."""

import asyncio
import http.client
import json
import socket
import threading
import time
from typing import Any

import pytest

from syncwall.web.answers.plan import searched
from syncwall.web.event_streams import AT_ONCE, Streams
from syncwall.web.questions import Search
from syncwall.web.workers import Busy

SMALL: dict[str, Any] = {
    "run": {"model": "llama-3.1-8b", "cluster": "dgx-h100", "layout": {"global_batch": 8, "tp": 8}},
    "keep": ["tp"],
}
LARGE: dict[str, Any] = {
    "run": {
        "model": "llama-3.1-405b",
        "cluster": "dgx-h100",
        "nodes": 2048,
        "layout": {"global_batch": 16384},
    },
    "nodes": [2048, 1024, 512],
}


class Visitor:
    """Somebody who listens to a response, and may leave."""

    def __init__(self, leaves_after=10**9):
        self.messages, self.left, self._leaves_after = [], asyncio.Event(), leaves_after

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.messages.append(message)
        if len(self.messages) > self._leaves_after:
            self.left.set()

    @property
    def lines(self):
        body = b"".join(message.get("body", b"") for message in self.messages)
        return [json.loads(line) for line in body.splitlines()]


async def heard(response, visitor):
    await response({"type": "http"}, visitor.receive, visitor.send)
    return visitor.lines


def is_gone(work):
    work._process.join(1.0)
    return not work._process.is_alive()


def test_progress_comes_before_the_answer():
    async def asked():
        streams = Streams()
        response = streams.streamed(searched, Search(**SMALL), limit_s=60)
        assert streams.running == 1
        lines = await heard(response, Visitor())
        assert streams.running == 0
        return lines

    *before, last = asyncio.run(asked())
    shares = [line["progress"] for line in before]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert last["answer"]["best"]


def test_who_leaves_ends_the_work():
    async def asked():
        streams = Streams()
        response = streams.streamed(searched, Search(**LARGE), limit_s=60)
        await heard(response, Visitor(leaves_after=4))
        return streams.running, is_gone(response._work)

    assert asyncio.run(asked()) == (0, True)


def test_a_visitor_who_leaves_before_the_first_line_ends_it_too():
    async def asked():
        streams = Streams()
        response, visitor = streams.streamed(searched, Search(**LARGE), limit_s=60), Visitor()
        visitor.left.set()
        await heard(response, visitor)
        return streams.running, is_gone(response._work)

    assert asyncio.run(asked()) == (0, True)


def test_a_task_that_is_cancelled_ends_it_too():
    async def asked():
        streams = Streams()
        response = streams.streamed(searched, Search(**LARGE), limit_s=60)
        task = asyncio.create_task(heard(response, Visitor()))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return streams.running, is_gone(response._work)

    assert asyncio.run(asked()) == (0, True)


def test_too_long_is_said():
    async def asked():
        response = Streams().streamed(searched, Search(**LARGE), limit_s=0.5)
        return await heard(response, Visitor())

    assert asyncio.run(asked())[-1] == {
        "problems": [{"where": "", "what": "takes more than 0.5 s", "too_large": True}]
    }


def test_what_cannot_be_is_said_with_its_key():
    wrong = {"run": {**SMALL["run"], "layout": {"global_batch": 8, "tp": -1}}}

    async def asked():
        return await heard(Streams().streamed(searched, Search(**wrong), limit_s=60), Visitor())

    (problem,) = asyncio.run(asked())[-1]["problems"]
    assert problem["where"] == "layout.tp"


def test_a_lost_process_is_said():
    async def asked():
        response = Streams().streamed(searched, Search(**LARGE), limit_s=60)
        response._work._process.kill()
        return await heard(response, Visitor())

    assert "lost" in asyncio.run(asked())[-1]["problems"][0]["what"]


def test_more_than_allowed_are_refused_before_anything_is_sent():
    async def asked():
        streams = Streams()
        some = [streams.streamed(searched, Search(**LARGE), limit_s=60) for _ in range(AT_ONCE)]
        with pytest.raises(Busy):
            streams.streamed(searched, Search(**LARGE), limit_s=60)
        for response in some:
            visitor = Visitor()
            visitor.left.set()
            await heard(response, visitor)
        return streams.running

    assert asyncio.run(asked()) == 0


def test_closing_a_real_connection_ends_the_search_within_a_second():
    uvicorn = pytest.importorskip("uvicorn")
    from syncwall.web.application import Options, application

    app: Any = application(Options(processes=1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            until(lambda: server.started, 30)
            body, kind = json.dumps(LARGE), {"content-type": "application/json"}
            connection.request("POST", "/api/plan", body, kind)
            answer = connection.getresponse()
            assert "progress" in json.loads(answer.readline())
            streams = app._app.state.desk.streams
            assert streams.running == 1
            answer.close()
            connection.close()
            until(lambda: streams.running == 0, 1.0)
        finally:
            server.should_exit = True
            thread.join(10)


def until(is_so, most_s):
    """Wait for something, not for long."""
    end = time.monotonic() + most_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
