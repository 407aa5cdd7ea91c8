"""Senders or receivers of `python -m bench accuracy contention`: connections, each with its part.

`flows.py receive PORT` takes connections for ever and answers the end of each
with one byte; `send ADDRESS PORT FLOWS BYTES` connects at a line on its input, sends at the time of
the next one, and prints the clock when all has arrived, again and again.
"""

import socket
import sys
import threading
import time

PIECE = bytes(1 << 16)


def receive(port: int) -> None:
    with socket.create_server(("", port), backlog=64) as listening:
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_taken, args=(connection,), daemon=True).start()


def _taken(connection: socket.socket) -> None:
    with connection:
        while connection.recv(1 << 18):
            pass
        connection.sendall(b"x")


def send(address: str, port: int, flows: int, size_bytes: int) -> None:
    while sys.stdin.readline():
        ways = [socket.create_connection((address, port)) for _ in range(flows)]
        print("ready", flush=True)
        start = float(sys.stdin.readline())
        while time.time() < start:
            time.sleep(0.001)
        threads = [threading.Thread(target=_sent, args=(way, size_bytes // flows)) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(time.time(), flush=True)


def _sent(way: socket.socket, size_bytes: int) -> None:
    with way:
        for _ in range(size_bytes // len(PIECE)):
            way.sendall(PIECE)
        way.sendall(PIECE[: size_bytes % len(PIECE)])
        way.shutdown(socket.SHUT_WR)
        way.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], *map(int, sys.argv[3:]))
