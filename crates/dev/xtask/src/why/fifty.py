"""A server with fifty functions of equal cost, one of which may cost twice as much: fifty.py PORT [FUNCTION]"""

import selectors
import socket
import sys

STEPS = 60
SOURCE = '''
def f{0:02}(steps):
    x = {0}
    for _ in range(steps):
        x = (x * 1664525 + 1013904223) & 0xffffffff
    return x
'''
for number in range(50):
    exec(compile("\n" * 5 * number + SOURCE.format(number), __file__, "exec"))
FUNCTIONS = [globals()[f"f{number:02}"] for number in range(50)]


def handle(slow):
    total = 0
    for number, function in enumerate(FUNCTIONS):
        total ^= function(2 * STEPS if number == slow else STEPS)
    return total


def main():
    slow = int(sys.argv[2]) if len(sys.argv) > 2 else -1
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                waiting.register(listener.accept()[0], selectors.EVENT_READ)
            elif key.fileobj.recv(4096):
                handle(slow)
                key.fileobj.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            else:
                waiting.unregister(key.fileobj)
                key.fileobj.close()


main()
