"""A server that is not restarted gracefully: the control of graceful-restart.

    python3 rebinds.py PORT

On SIGHUP it closes its listening socket and all connections, and listens again a
fifth of a second later. It answers every request with `Hello World!`.
"""

import selectors
import signal
import socket
import sys
import time

from tachograph_counter import counter

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World!"
PAUSE_S = 0.2


def listen(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(128)
    return server


def serve(port, is_over):
    """Answer requests until `is_over()`, and close everything."""
    ready = selectors.DefaultSelector()
    server = listen(port)
    ready.register(server, selectors.EVENT_READ)
    received = {}
    while not is_over():
        for key, _ in ready.select(0.01):
            if key.fileobj is server:
                connection = server.accept()[0]
                received[connection] = b""
                ready.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            try:
                data = connection.recv(65536)
                answer(connection, received, data)
            except OSError:
                data = b""
            if not data:
                ready.unregister(connection)
                del received[connection]
                connection.close()
    for connection in [*received, server]:
        connection.close()


def answer(connection, received, data):
    """Answer every request that is complete; requests have no body."""
    received[connection] += data
    while b"\r\n\r\n" in received[connection]:
        _, _, received[connection] = received[connection].partition(b"\r\n\r\n")
        connection.sendall(ANSWER)
        hit()


hit = counter()
hups = 0


def count_hup(*_):
    global hups
    hups += 1


signal.signal(signal.SIGHUP, count_hup)
seen = 0
while True:
    serve(int(sys.argv[1]), lambda: hups > seen)
    seen += 1
    time.sleep(PAUSE_S)
