"""A link that delays packets: relays between two TUN devices, one of which moves to another network
namespace. Used where the kernel has no netem.

Arguments: names of the two devices, their addresses, the process whose namespace gets the second
one, and the delay of each direction in seconds. Ends with its standard input.
"""

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 1
IFF_NO_PI = 0x1000

near, far, near_address, far_address, pid, delay = sys.argv[1:]
delay = float(delay)


def ip(words, *prefix):
    subprocess.run([*prefix, "ip", *words.split()], check=True)


def device(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


ends = [device(near), device(far)]
ip(f"link set {far} netns {pid}")
inside = ("nsenter", "--target", pid, "--net", "--")
ip(f"address add {near_address} peer {far_address} dev {near}")
ip(f"link set {near} up txqueuelen 10000")
ip(f"address add {far_address} peer {near_address} dev {far}", *inside)
ip(f"link set {far} up txqueuelen 10000", *inside)
print("ready", flush=True)

waiting = collections.deque()
while True:
    left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    readable, _, _ = select.select([0, *ends], [], [], left)
    if 0 in readable and not os.read(0, 1):
        break
    for tun in ends:
        while tun in readable:
            try:
                packet = os.read(tun, 65536)
            except BlockingIOError:
                break
            waiting.append((time.monotonic() + delay, ends[tun == ends[0]], packet))
    while waiting and waiting[0][0] <= time.monotonic():
        _, tun, packet = waiting.popleft()
        try:
            os.write(tun, packet)
        except BlockingIOError:
            pass  # its queue is full, as that of a router may be
