"""Count the requests of a WSGI or ASGI application, for tachograph's ledger.

Wrap a WSGI application::

    from tachograph_counter import count
    app = count(app)

or leave it unchanged and serve this module instead, with the application's
name in the environment::

    TACHOGRAPH_WSGI_APP=server:app gunicorn tachograph_counter:app

For ASGI use ``count_asgi``, or::

    TACHOGRAPH_ASGI_APP=server:app uvicorn tachograph_counter:asgi_app

A module outside the working directory is found through
``TACHOGRAPH_APP_DIR``. Other code, such as a handler of mod_python, calls the
function returned by ``counter()`` once for every request that it has served.

Without ``TACHOGRAPH_COUNTERS`` in the environment nothing is counted, and
``count`` returns the application itself.

What is counted
---------------
A request is *entered* when the application is called. It is *served* when its
response has been consumed or, by servers that do not iterate (for example for
a HEAD request), when it is closed. A request is entered but never served if
the application raises an exception, or if the server stops consuming the
response. An ASGI request is served when the server has accepted the last part
of its body; only HTTP is counted.

The files
---------
From its first request on, every worker process has a memory-mapped file
``<pid>-<random>.count`` in the folder ``TACHOGRAPH_COUNTERS``. Numbers are
unsigned, little-endian and 64 bits long::

    offset  size  content
         0     8  the bytes TGCOUNT1
         8     8  number of slots
        16    16  slot 0: requests entered, requests served
        32    16  slot 1, and so on

Each thread writes to a slot of its own, so no lock is needed and no increment
is lost; slots of ended threads are reused. When a file has no free slot, the
process creates another one. The count of a server is the sum over all slots of
all files. It survives the processes, however they end.
"""

import importlib
import mmap
import os
import struct
import sys
import threading
from collections import deque
from threading import get_ident

__all__ = ["count", "count_asgi", "counter", "totals"]

MAGIC = b"TGCOUNT1"
HEADER = struct.Struct("<8sQ")
SLOT = struct.Struct("<QQ")
# With the header, one page of 4096 bytes.
SLOTS_PER_FILE = 255

# Marks a request that is already being counted, so that an application that is
# wrapped twice is counted once.
_COUNTED = "tachograph.counted"


def count(application):
    """Return the application; count its requests if ``TACHOGRAPH_COUNTERS`` is set."""
    folder = os.environ.get("TACHOGRAPH_COUNTERS")
    if not folder:
        return application
    slots = _Slots(folder)

    def counted(environ, start_response):
        if _COUNTED in environ:
            return application(environ, start_response)
        environ[_COUNTED] = True
        slot = slots.own()
        slot.numbers[slot.entered] += 1
        response = application(environ, start_response)
        if type(response) is list or isinstance(response, (list, tuple)):
            response = _List(response)
            response.slot = slot
            return response
        if _is_file(environ, response) and _count_when_closed(response, slot):
            return response
        if hasattr(response, "__len__"):
            return _SizedResponse(response, slot)
        return _Response(response, slot)

    return counted


def count_asgi(application):
    """Return the ASGI application; count its requests if ``TACHOGRAPH_COUNTERS`` is set."""
    folder = os.environ.get("TACHOGRAPH_COUNTERS")
    if not folder:
        return application
    slots = _Slots(folder)

    async def counted(scope, receive, send):
        if scope["type"] != "http" or _COUNTED in scope:
            return await application(scope, receive, send)
        slot = slots.own()
        slot.numbers[slot.entered] += 1

        async def counting_send(message):
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                _serve(slot)

        return await application(dict(scope, **{_COUNTED: True}), receive, counting_send)

    return counted


def counter():
    """Return a function that counts one request as entered and served.

    It does nothing if ``TACHOGRAPH_COUNTERS`` is not set.
    """
    folder = os.environ.get("TACHOGRAPH_COUNTERS")
    if not folder:
        return lambda: None
    slots = _Slots(folder)

    def hit():
        slot = slots.own()
        slot.numbers[slot.entered] += 1
        slot.numbers[slot.served] += 1

    return hit


def totals(folder):
    """Return how many requests were entered and served, over all files of a folder."""
    entered = served = 0
    for name in os.listdir(folder):
        if not name.endswith(".count"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        magic, slots = HEADER.unpack_from(content)
        if magic != MAGIC:
            raise ValueError("%s is not a file of the counter" % name)
        for slot in range(slots):
            numbers = SLOT.unpack_from(content, HEADER.size + slot * SLOT.size)
            entered += numbers[0]
            served += numbers[1]
    return entered, served


# --- Responses ------------------------------------------------------------
#
# A response holds the slot in which it will be counted. Whoever begins to take
# it takes the slot out, and so does whoever closes it: it is counted once.


def _serve(slot):
    # The thread that ends a response need not be the one that began it.
    if slot.thread != get_ident():
        slot = slot.process.slots.own()
    slot.numbers[slot.served] += 1


class _List(list):
    """A response that is a list stays one: servers look at its length for Content-Length."""

    __slots__ = ("slot",)

    def __iter__(self):
        slot, self.slot = self.slot, None
        yield from list.__iter__(self)
        if slot is not None:
            _serve(slot)

    def close(self):
        slot, self.slot = self.slot, None
        if slot is not None:
            _serve(slot)


class _Response:
    """Any other response."""

    __slots__ = ("response", "slot")

    def __init__(self, response, slot):
        self.response = response
        self.slot = slot

    def __iter__(self):
        slot, self.slot = self.slot, None
        yield from self.response
        if slot is not None:
            _serve(slot)

    def close(self):
        close = getattr(self.response, "close", None)
        if close is not None:
            close()
        slot, self.slot = self.slot, None
        if slot is not None:
            _serve(slot)


class _SizedResponse(_Response):
    """A response that knows how many parts it has goes on to tell."""

    __slots__ = ()

    def __len__(self):
        return len(self.response)


def _is_file(environ, response):
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(wrapper, type) and isinstance(response, wrapper)


def _count_when_closed(response, slot):
    """Count a file when it is closed: a server recognises its own type of file and sends it whole.

    Return whether the response lets itself be watched.
    """
    close = getattr(response, "close", None)

    def counted_close():
        if close is not None:
            close()
        _serve(slot)

    try:
        response.close = counted_close
    except AttributeError:
        return False
    return True


# --- Slots ----------------------------------------------------------------


class _Slot:
    """Two numbers in a file; when its thread ends, it is free for another."""

    __slots__ = ("pid", "thread", "numbers", "entered", "served", "process")

    def __init__(self, process, numbers, entered):
        self.pid = process.pid
        self.thread = get_ident()
        self.numbers = numbers
        self.entered = entered
        self.served = entered + 1
        self.process = process

    def __del__(self):
        self.process.free.append((self.numbers, self.entered))


class _Slots:
    """Every thread's own slot, in every process that this one forks into."""

    def __init__(self, folder):
        if sys.byteorder != "little":
            raise RuntimeError("tachograph_counter needs a little-endian processor")
        self.folder = folder
        self.thread = threading.local()
        self.processes = {}

    def own(self):
        """The calling thread's slot."""
        slot = getattr(self.thread, "slot", None)
        # Asked for at every request, because a server written in C may fork
        # without telling Python.
        pid = os.getpid()
        if slot is None or slot.pid != pid:
            # setdefault lets exactly one of several threads begin the process,
            # without a lock that another thread might hold while this one forks.
            process = self.processes.setdefault(pid, _Process(self, pid))
            slot = self.thread.slot = process.slot()
        return slot


class _Process:
    """The files of one process."""

    def __init__(self, slots, pid):
        self.slots = slots
        self.pid = pid
        self.free = deque()
        self.lock = threading.Lock()
        self.numbers = None
        self.used = 0

    def slot(self):
        try:
            numbers, entered = self.free.pop()
        except IndexError:
            numbers, entered = self.unused()
        return _Slot(self, numbers, entered)

    def unused(self):
        with self.lock:
            if self.numbers is None or self.used == SLOTS_PER_FILE:
                self.numbers = _create(self.slots.folder, self.pid)
                self.used = 0
            self.used += 1
            return self.numbers, 2 * self.used


def _create(folder, pid):
    """Create a file and return its 64-bit numbers, including the two of the header."""
    name = os.path.join(folder, "%d-%s" % (pid, os.urandom(6).hex()))
    size = HEADER.size + SLOTS_PER_FILE * SLOT.size
    file = os.open(name + ".new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        # On a full disk this must fail here, not kill the process at the first count.
        os.posix_fallocate(file, 0, size)
        content = mmap.mmap(file, size)
    finally:
        os.close(file)
    HEADER.pack_into(content, 0, MAGIC, SLOTS_PER_FILE)
    # Readers look for .count, so they never see a file without its header.
    os.rename(name + ".new", name + ".count")
    return memoryview(content).cast("Q")


# --- The application named in the environment -------------------------------------


def _load(name):
    """Import ``module:app``, ``module:make_app()`` or ``module`` (its ``application``)."""
    module, _, attribute = name.partition(":")
    attribute = attribute or "application"
    # Servers add the working directory to the path; a console script does not.
    for folder in (os.getcwd(), os.environ.get("TACHOGRAPH_APP_DIR")):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    application = importlib.import_module(module)
    for part in attribute.replace("()", "").split("."):
        application = getattr(application, part)
    return application() if attribute.endswith("()") else application


if os.environ.get("TACHOGRAPH_WSGI_APP") and __name__ != "__main__":
    app = application = count(_load(os.environ["TACHOGRAPH_WSGI_APP"]))

if os.environ.get("TACHOGRAPH_ASGI_APP") and __name__ != "__main__":
    asgi_app = count_asgi(_load(os.environ["TACHOGRAPH_ASGI_APP"]))
