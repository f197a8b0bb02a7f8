"""A server of the zoo on one asyncio loop: server.py PORT FILE.

FILE holds a behaviour as JSON (behaviour.rs). Everything is implemented independently of the Rust
server, so that a mistake in one of them does not go unnoticed.
"""

import asyncio
import json
import math
import random
import selectors
import socket
import sys

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World!"


class Pace:
    """Turns work into time: breaks are the moments at which the speed changes."""

    def __init__(self, pace):
        self.by_count = None
        if pace == "even":
            self.speeds = iter([(1.0, math.inf)])
        elif "slow_start" in pace:
            slow = pace["slow_start"]
            self.speeds = iter([(1 / slow["factor"], slow["length_s"]), (1.0, math.inf)])
        elif "phases" in pace:
            self.speeds = self.phases(**pace["phases"])
        else:
            when, length = pace["stops"]["when"], pace["stops"]["length_s"]
            if "requests" in when:
                self.by_count = (when["requests"], length)
                self.speeds = iter([(1.0, math.inf)])
            elif "fixed" in when:
                self.speeds = self.stops(length, lambda: when["fixed"], when["fixed"], False)
            else:
                mean = when["exponential"]
                self.speeds = self.stops(length, lambda: random.expovariate(1 / mean), mean, True)
        # Time, work and speed at each break; the last one ends at self.end.
        self.breaks = []
        self.end = 0.0
        self.add(*next(self.speeds))

    @staticmethod
    def phases(length_s, factor):
        speeds = [1.0, 1 / factor]
        if random.random() < 0.5:
            speeds.reverse()
        yield speeds[0], random.random() * length_s
        while True:
            yield speeds[1], length_s
            yield speeds[0], length_s

    @staticmethod
    def stops(length, draw, mean, memoryless):
        left = random.random() * (mean + length)
        if left < length:
            yield 0.0, left
        else:
            yield 1.0, draw() if memoryless else left - length
            yield 0.0, length
        while True:
            yield 1.0, draw()
            yield 0.0, length

    def add(self, speed, length):
        work = 0.0
        if self.breaks:
            time, work, before = self.breaks[-1]
            work += before * (self.end - time) if before else 0.0
        self.breaks.append((self.end, work, speed))
        self.end += length

    def work_at(self, time):
        while self.end <= time:
            self.add(*next(self.speeds))
        for begin, work, speed in reversed(self.breaks):
            if begin <= time:
                return work + speed * (time - begin)
        return 0.0

    def time_at(self, work):
        while True:
            begin, base, speed = self.breaks[-1]
            if speed and base + speed * (self.end - begin) >= work:
                break
            self.add(*next(self.speeds))
        for begin, base, speed in reversed(self.breaks):
            if base < work:
                return begin + (work - base) / speed
        return 0.0

    def stop(self, work, length):
        begin, base, _ = self.breaks[-1]
        self.end = begin + max(0.0, work - base)
        self.add(0.0, length)
        self.add(1.0, math.inf)


class Server:
    def __init__(self, behaviour, loop):
        self.behaviour = behaviour
        self.loop = loop
        self.began = loop.time()
        self.pace = Pace(behaviour["pace"])
        self.lock_free = 0.0
        every = (behaviour["slow"] or {"which": {}})["which"].get("every")
        self.until_slow = random.randint(1, every) if every else None
        self.until_stop = random.randint(1, self.pace.by_count[0]) if self.pace.by_count else None

    def now(self):
        return self.loop.time() - self.began

    def is_slow(self):
        which = self.behaviour["slow"]["which"]
        if "share" in which:
            return random.random() < which["share"]
        self.until_slow -= 1
        if self.until_slow:
            return False
        self.until_slow = which["every"]
        return True

    def due(self, begin, factor):
        """The work at which a request is answered."""
        length = self.behaviour["fast_s"] * factor
        if self.behaviour["slow"] and self.is_slow():
            length = self.behaviour["slow"]["length_s"]
        lock = self.behaviour["lock"]
        if lock:
            begin = max(begin, self.lock_free)
            if random.random() < lock["share"]:
                begin = self.lock_free = begin + lock["hold_s"]
        return begin + length

    def answered(self, due):
        if self.until_stop is None:
            return
        self.until_stop -= 1
        if not self.until_stop:
            self.until_stop, length = self.pace.by_count
            self.pace.stop(due, length)


class Connection(asyncio.Protocol):
    def __init__(self, server):
        self.server = server
        slow = server.behaviour["slow_connections"]
        self.factor = slow["factor"] if slow and random.random() < slow["share"] else 1.0
        self.unread = b""
        self.busy = False
        # Time and work at which the answer before was due.
        self.before = (-math.inf, 0.0)

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data):
        self.unread += data
        if not self.busy:
            self.begin()

    def begin(self):
        end = self.unread.find(b"\r\n\r\n")
        if end < 0:
            return
        self.unread = self.unread[end + 4 :]
        self.busy = True
        server = self.server
        now = server.now()
        time, work = self.before
        # The way over loopback is not part of the known behaviour (server.rs says why).
        if now - time > server.behaviour["fast_s"] / 2:
            work = server.pace.work_at(now)
        self.due = server.due(work, self.factor)
        self.answer_when_due()

    def answer_when_due(self):
        server = self.server
        time = server.pace.time_at(self.due)
        if server.now() < time:
            server.loop.call_at(server.began + time, self.answer_when_due)
            return
        server.answered(self.due)
        self.before = (time, self.due)
        self.transport.write(RESPONSE)
        self.busy = False
        self.begin()


async def main(port, file):
    with open(file, encoding="utf-8") as text:
        behaviour = json.load(text)
    loop = asyncio.get_running_loop()
    server = Server(behaviour, loop)
    listener = await loop.create_server(
        lambda: Connection(server), "127.0.0.1", port, backlog=1024
    )
    await listener.serve_forever()


if __name__ == "__main__":
    # epoll rounds times up to milliseconds, select does not.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2]))
