"""Tests of the WSGI counter: python3 -m unittest discover python"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tachograph_counter
from tachograph_counter import HEADER, MAGIC, SLOT, SLOTS_PER_FILE, count, count_asgi, counter, totals


def environ(**more):
    values = {}
    setup_testing_defaults(values)
    values.update(more)
    return values


def start_response(status, headers, exc_info=None):
    return lambda data: None


def request(app, **more):
    """One request, taken to its end and closed as PEP 3333 asks of a server."""
    response = app(environ(**more), start_response)
    try:
        return b"".join(response)
    finally:
        if hasattr(response, "close"):
            response.close()


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Hello ", b"there!"]


class Generated:
    """A response with a close of its own."""

    closed = False

    def __iter__(self):
        yield b"Hello "
        yield b"there!"

    def close(self):
        self.closed = True


class CounterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.environ["TACHOGRAPH_COUNTERS"] = self.folder
        self.addCleanup(os.environ.pop, "TACHOGRAPH_COUNTERS", None)

    def files(self):
        return sorted(os.listdir(self.folder))

    def test_without_the_variable_the_application_is_left_alone(self):
        del os.environ["TACHOGRAPH_COUNTERS"]
        self.assertIs(count(hello), hello)
        os.environ["TACHOGRAPH_COUNTERS"] = ""
        self.assertIs(count(hello), hello)

    def test_requests_are_counted_in_the_documented_format(self):
        app = count(hello)
        self.assertEqual(self.files(), [])
        for _ in range(3):
            self.assertEqual(request(app), b"Hello there!")
        (name,) = self.files()
        self.assertRegex(name, r"^%d-[0-9a-f]+\.count$" % os.getpid())
        with open(os.path.join(self.folder, name), "rb") as file:
            content = file.read()
        self.assertEqual(content[:8], b"TGCOUNT1")
        self.assertEqual(int.from_bytes(content[8:16], "little"), SLOTS_PER_FILE)
        self.assertEqual(len(content), 16 + 16 * SLOTS_PER_FILE)
        self.assertEqual(int.from_bytes(content[16:24], "little"), 3)
        self.assertEqual(int.from_bytes(content[24:32], "little"), 3)
        self.assertEqual(content[32:], bytes(len(content) - 32))

    def test_the_response_is_the_same(self):
        response = count(hello)(environ(), start_response)
        self.assertIsInstance(response, list)
        self.assertEqual((len(response), list(response)), (2, [b"Hello ", b"there!"]))
        sized = count(lambda e, s: dict.fromkeys([b"a"]))(environ(), start_response)
        self.assertEqual((len(sized), list(sized)), (1, [b"a"]))
        unsized = count(lambda e, s: iter([b"a"]))(environ(), start_response)
        self.assertFalse(hasattr(unsized, "__len__"))
        self.assertEqual(totals(self.folder), (3, 2), "one of them was not taken")

    def test_a_response_is_counted_once_and_closed(self):
        generated = Generated()
        app = count(lambda e, s: generated)
        self.assertEqual(request(app), b"Hello there!")
        self.assertTrue(generated.closed)
        self.assertEqual(totals(self.folder), (1, 1))

    def test_a_response_that_is_closed_and_never_taken_is_served(self):
        for response in ([b"body"], Generated()):
            count(lambda e, s: response)(environ(REQUEST_METHOD="HEAD"), start_response).close()
        self.assertEqual(totals(self.folder), (2, 2))

    def test_an_abandoned_response_is_not_served(self):
        for body in ([b"a", b"b"], Generated()):
            response = count(lambda e, s: body)(environ(), start_response)
            next(iter(response))
            response.close()
        self.assertEqual(totals(self.folder), (2, 0))

    def test_an_exception_is_not_served(self):
        def fails(environ, start_response):
            raise KeyError("x")

        def fails_later(environ, start_response):
            yield b"a"
            raise KeyError("x")

        for app in (fails, fails_later):
            self.assertRaises(KeyError, request, count(app))
        self.assertEqual(totals(self.folder), (2, 0))

    def test_wrapping_twice_counts_once(self):
        self.assertEqual(request(count(count(hello))), b"Hello there!")
        self.assertEqual(totals(self.folder), (1, 1))

    def test_files_keep_the_type_that_a_server_recognises(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            return environ["wsgi.file_wrapper"](open(__file__, "rb"))

        response = count(app)(environ(**{"wsgi.file_wrapper": FileWrapper}), start_response)
        self.assertIs(type(response), FileWrapper)
        self.assertEqual(totals(self.folder), (1, 0))
        response.close()
        self.assertTrue(response.filelike.closed)
        self.assertEqual(totals(self.folder), (1, 1))

    def test_the_counter_keeps_to_pep_3333(self):
        app = validator(count(validator(hello)))
        response = app(environ(QUERY_STRING=""), start_response)
        self.assertEqual(b"".join(response), b"Hello there!")
        response.close()
        self.assertEqual(totals(self.folder), (1, 1))

    def test_threads_lose_no_increment(self):
        app = count(hello)
        barrier = threading.Barrier(8)

        def work():
            barrier.wait()
            for _ in range(500):
                request(app)

        self.in_threads(8, work)
        self.assertEqual(totals(self.folder), (4000, 4000))

    def test_more_threads_than_slots_begin_a_further_file(self):
        app = count(hello)
        barrier = threading.Barrier(SLOTS_PER_FILE + 1)

        def work():
            request(app)
            barrier.wait()

        self.in_threads(SLOTS_PER_FILE + 1, work)
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(totals(self.folder), (SLOTS_PER_FILE + 1, SLOTS_PER_FILE + 1))

    def test_threads_that_ended_leave_their_slots(self):
        app = count(hello)
        for _ in range(2 * SLOTS_PER_FILE):
            self.in_threads(1, lambda: request(app))
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(totals(self.folder), (2 * SLOTS_PER_FILE, 2 * SLOTS_PER_FILE))

    def test_a_response_may_end_in_another_thread(self):
        response = count(hello)(environ(), start_response)
        self.in_threads(1, lambda: b"".join(response))
        self.assertEqual(totals(self.folder), (1, 1))

    def test_a_forked_process_has_a_file_of_its_own(self):
        app = count(hello)
        request(app)
        child = os.fork()
        if child == 0:
            request(app)
            request(app)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        request(app)
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(totals(self.folder), (4, 4))

    def test_a_process_that_is_killed_has_counted(self):
        child = os.fork()
        if child == 0:
            request(count(hello))
            os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
        self.assertEqual(totals(self.folder), (1, 1))

    def test_a_folder_that_is_missing_is_not_passed_over(self):
        os.environ["TACHOGRAPH_COUNTERS"] = os.path.join(self.folder, "missing")
        self.assertRaises(FileNotFoundError, request, count(hello))

    def test_the_application_of_the_environment(self):
        with open(os.path.join(self.folder, "server.py"), "w") as file:
            file.write(
                "from tachograph_counter import count\n"
                "def app(environ, start_response): return [b'x']\n"
                "def make(): return count(app)\n"
                "application = app\n"
            )
        for name in ("server:app", "server:make()", "server"):
            self.assertEqual(self.served(name), b"served\n", name)
        self.assertEqual(totals(self.folder), (3, 3))

    def test_asgi_is_served_when_the_last_part_has_been_taken(self):
        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await send({"type": "http.response.body", "body": b"b"})

        sent = []

        async def send(message):
            sent.append(message["type"])

        async def broken(message):
            raise OSError("the client is gone")

        counted = count_asgi(count_asgi(app))
        asyncio.run(counted({"type": "http"}, None, send))
        self.assertEqual(totals(self.folder), (1, 1))
        self.assertEqual(len(sent), 3)
        self.assertRaises(OSError, asyncio.run, counted({"type": "http"}, None, broken))
        self.assertEqual(totals(self.folder), (2, 1))
        asyncio.run(counted({"type": "lifespan"}, None, send))
        self.assertEqual(totals(self.folder), (2, 1))

    def test_code_of_another_kind_counts_for_itself(self):
        hit = counter()
        self.in_threads(3, lambda: [hit() for _ in range(1000)])
        self.assertEqual(totals(self.folder), (3000, 3000))
        os.environ.pop("TACHOGRAPH_COUNTERS")
        counter()()
        self.assertIs(count_asgi(hello), hello)

    def served(self, name):
        code = (
            "import tachograph_counter\n"
            "response = tachograph_counter.app({}, None)\n"
            "print('served' if b''.join(response) == b'x' else 'not served')\n"
        )
        more = {
            "TACHOGRAPH_WSGI_APP": name,
            "PYTHONPATH": os.path.dirname(tachograph_counter.__file__),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, cwd=self.folder, env=dict(os.environ, **more))

    def in_threads(self, number, work):
        threads = [threading.Thread(target=work) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class TotalsTest(unittest.TestCase):
    def test_files_are_added_up_and_strangers_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, served in (("1-a.count", 2), ("1-b.count", 5)):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(HEADER.pack(MAGIC, 2) + SLOT.pack(7, served) + SLOT.pack(1, 1))
            self.assertEqual(totals(folder), (16, 9))
            with open(os.path.join(folder, "x.count"), "wb") as file:
                file.write(HEADER.pack(b"????????", 0))
            self.assertRaises(ValueError, totals, folder)


if __name__ == "__main__":
    unittest.main()
