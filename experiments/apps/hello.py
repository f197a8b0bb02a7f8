"""Hello World as WSGI and as ASGI: the application of the python-servers experiments."""

BODY = b"Hello World!"


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "12")])
    return [BODY]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        # The server's lifespan protocol: it reports its start and stop.
        raise ValueError("only HTTP is answered here")
    await send({
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/plain"), (b"content-length", b"12")],
    })
    await send({"type": "http.response.body", "body": BODY})
