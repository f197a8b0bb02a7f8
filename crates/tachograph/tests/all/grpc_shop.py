"""The services of shop.proto by grpcio, with counts of what they answered.

    grpc_shop.py ADDRESS DESCRIPTORS [OPTIONS]

The file of --counts has a JSON object of statuses with their numbers, that of --served the number of
calls that succeeded; both are written before each answer is sent.
"""

import argparse
import asyncio
import json
import os
import random
import threading
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import _async, reflection
from grpc_reflection.v1alpha import reflection_pb2

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("descriptors")
parser.add_argument("--aio", action="store_true")
parser.add_argument("--reflection", default="v1alpha", choices=["none", "v1", "v1alpha"])
parser.add_argument("--share", type=float, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--counts")
parser.add_argument("--served")
parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
parser.add_argument("--client-authority")
options = parser.parse_args()

pool = descriptor_pool.DescriptorPool()
with open(options.descriptors, "rb") as file:
    for each in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.Add(each)
Order, Item, Receipt = (
    message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.v1.{name}"))
    for name in ("Order", "Item", "Receipt"))

CODES = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL]
lock = threading.Lock()
drawn = random.Random(options.seed)
counts = {}


def write(path, text):
    if path:
        with open(path, "r+" if os.path.exists(path) else "w") as file:
            file.write(text)


def draw():
    """The status of the next call, which is counted."""
    with lock:
        code = drawn.choice(CODES) if drawn.random() < options.share else grpc.StatusCode.OK
        counts[code.name] = counts.get(code.name, 0) + 1
        write(options.counts, json.dumps(counts).ljust(200))
        write(options.served, str(counts.get("OK", 0)))
    return code


def place(order, context):
    code = draw()
    if code != grpc.StatusCode.OK:
        context.abort(code, "drawn")
    return Receipt(number=len(order.items), text=order.buyer)


async def place_async(order, context):
    code = draw()
    if code != grpc.StatusCode.OK:
        await context.abort(code, "drawn")
    return Receipt(number=len(order.items), text=order.buyer)


def count(item, context):
    draw()
    return Receipt(number=item.price_cents, text=item.name)


async def count_async(item, context):
    return count(item, context)


def method(handle, request):
    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=request.FromString,
        response_serializer=Receipt.SerializeToString)


def add_services(server):
    services = {
        "shop.v1.Orders": {"Place": method(place_async if options.aio else place, Order)},
        "shop.v1.Stock": {"Count": method(count_async if options.aio else count, Item)},
    }
    names = list(services)
    if options.reflection == "v1alpha":
        reflection.enable_server_reflection(names, server, pool=pool)
    elif options.reflection == "v1":
        # grpcio only has the older name; the messages are the same.
        kind = _async.ReflectionServicer if options.aio else reflection.ReflectionServicer
        services["grpc.reflection.v1.ServerReflection"] = {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                kind(names, pool=pool).ServerReflectionInfo,
                request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
                response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString)}
    for name, methods in services.items():
        handler = grpc.method_handlers_generic_handler(name, methods)
        server.add_generic_rpc_handlers((handler,))


def listen(server):
    add_services(server)
    if not options.tls:
        assert server.add_insecure_port(options.address)
        return
    certificate, key = (open(path, "rb").read() for path in options.tls)
    authority = options.client_authority and open(options.client_authority, "rb").read()
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=authority, require_client_auth=bool(authority))
    assert server.add_secure_port(options.address, credentials)


async def serve_async():
    server = grpc.aio.server()
    listen(server)
    await server.start()
    print("listening", flush=True)
    await server.wait_for_termination()


if options.aio:
    asyncio.run(serve_async())
else:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    listen(server)
    server.start()
    print("listening", flush=True)
    server.wait_for_termination()
