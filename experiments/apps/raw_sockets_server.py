"""Accept, send twelve bytes, close; one connection after another.

    python3 raw_sockets_server.py tcp://127.0.0.1:PORT COUNTER
    python3 raw_sockets_server.py unix:PATH COUNTER

COUNTER is a file that is there as soon as the server listens, and that holds
how many connections have been answered, as a decimal number.
"""

import mmap
import os
import socket
import sys

MESSAGE = b"Hello there!"


def listen(address):
    if address.startswith("unix:"):
        path = address[len("unix:"):]
        if os.path.exists(path):
            os.unlink(path)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(path)
    else:
        host, port = address[len("tcp://"):].rsplit(":", 1)
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, int(port)))
    server.listen(0)
    return server


def counter(path):
    """A file mapped into memory, so that counting costs no system call."""
    file = os.open(path + ".new", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(file, b"%020d" % 0)
    served = mmap.mmap(file, 20)
    os.close(file)
    os.rename(path + ".new", path)
    return served


def main(address, path):
    server = listen(address)
    served = counter(path)
    number = 0
    while True:
        connection, _ = server.accept()
        try:
            connection.sendall(MESSAGE)
            # Counted before the close, which completes the response for the client.
            number += 1
            served[:] = b"%020d" % number
        except OSError as error:
            print("a client left without its answer:", error, file=sys.stderr)
        connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
