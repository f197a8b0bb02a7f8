"""Connect, receive up to 32 bytes, close; one connection after another, as often as asked.

    python3 raw_sockets_client.py ADDRESS ASKED NUMBER

ADDRESS is the server's, tcp://127.0.0.1:PORT or unix:PATH. ASKED is the path of a
Unix socket on which this program is told when to work: for each byte that arrives
it makes NUMBER connections, and sends the byte back once all of them have brought
"Hello there!". If one did not, it closes the socket instead.
"""

import os
import socket
import sys

MESSAGE = b"Hello there!"


def client_of(address):
    """A function that receives one message from the server at `address`."""
    if address.startswith("unix:"):
        family, place = socket.AF_UNIX, address[len("unix:"):]
    else:
        host, port = address[len("tcp://"):].rsplit(":", 1)
        family, place = socket.AF_INET, (host, int(port))

    def receive():
        client = socket.socket(family, socket.SOCK_STREAM)
        client.connect(place)
        message = client.recv(32)
        client.close()
        return message

    return receive


def listen(path):
    """A socket whose path is there once it accepts connections."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path + ".new")
    server.listen(8)
    os.rename(path + ".new", path)
    return server


def serve(asked, receive, number):
    """Works for one connection until it is closed."""
    while True:
        byte = asked.recv(1)
        if not byte:
            return
        for _ in range(number):
            message = receive()
            if message != MESSAGE:
                print("received", message, "instead of", MESSAGE, file=sys.stderr)
                return
        asked.sendall(byte)


def main(address, path, number):
    receive = client_of(address)
    server = listen(path)
    while True:
        asked, _ = server.accept()
        try:
            serve(asked, receive, int(number))
        except OSError as error:
            print("cannot ask the server:", error, file=sys.stderr)
        asked.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
