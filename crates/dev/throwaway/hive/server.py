"""A small HiveServer2 for tests, from parts that share no code with tachograph: impyla's generated
TCLIService and Apache Thrift's Python library, MIT's Kerberos through python-gssapi, and DuckDB,
which reads the published Parquet files.

usage: server.py [--auth nosasl|none|plain|kerberos] [--keytab FILE] [--qop auth,auth-int,auth-conf]
                 [--http PATH] [--tls FILE] [--fault NAME] [--catalog FILE]

With --http it is reached by requests, with --tls by the certificate and key in a file.

It prints "listening on PORT", writes every statement to standard error, and ends when its standard
input does. The user "ada" has the password "secret".
"""

import argparse
import base64
import http.server
import json
import os
import re
import socket
import ssl
import struct
import sys
import threading
import uuid

# python3-gssapi is Debian's; building PyPI's needs a compiler.
sys.path.append("/usr/lib/python3/dist-packages")

from impala_thrift_gen.TCLIService import TCLIService
from impala_thrift_gen.TCLIService.ttypes import (
    TBoolColumn, TCancelOperationResp, TCloseOperationResp, TCloseSessionResp, TColumn,
    TDoubleColumn, TExecuteStatementResp, TFetchResultsResp, TGetInfoResp, TGetInfoValue,
    TGetOperationStatusResp,
    THandleIdentifier, TI64Column, TOpenSessionResp, TOperationHandle, TOperationState,
    TOperationType, TProtocolVersion, TRowSet, TSessionHandle, TStatus, TStatusCode, TStringColumn)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer, TTransportBase, TTransportException

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
LAYERS = {"auth": 1, "auth-int": 2, "auth-conf": 4}


class Refused(Exception):
    """A login that is refused."""


class Wire:
    """A socket, read exactly."""

    def __init__(self, sock):
        self.sock = sock

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise TTransportException(TTransportException.END_OF_FILE, "closed")
            data += more
        return data

    def write(self, data):
        self.sock.sendall(data)

    def message(self):
        status, length = struct.unpack(">BI", self.read(5))
        return status, self.read(length)

    def send(self, status, payload=b""):
        self.write(struct.pack(">BI", status, len(payload)) + payload)


class Frames(TTransportBase):
    """Frames after the login, or plain bytes without one; `layer` wraps and unwraps them."""

    def __init__(self, wire, layer=None, framed=True):
        self.wire, self.layer, self.framed = wire, layer, framed
        self.incoming, self.outgoing = b"", b""

    def isOpen(self):
        return True

    def close(self):
        self.wire.sock.close()

    def read(self, count):
        if not self.framed:
            return self.wire.read(count)
        while not self.incoming:
            (length,) = struct.unpack(">I", self.wire.read(4))
            frame = self.wire.read(length)
            self.incoming = self.layer.unwrap(frame) if self.layer else frame
        data, self.incoming = self.incoming[:count], self.incoming[count:]
        return data

    def write(self, data):
        self.outgoing += data

    def flush(self):
        data, self.outgoing = self.outgoing, b""
        if not self.framed:
            return self.wire.write(data)
        if self.layer:
            data = self.layer.wrap(data)
        fault = OPTIONS.fault
        if fault == "oversized":
            data, head = b"", struct.pack(">I", 0x7FFFFFFF)
        else:
            head = struct.pack(">I", len(data))
        if fault == "half":
            data = data[: len(data) // 2]
        self.wire.write(head + data)
        if fault in ("oversized", "half"):
            self.wire.sock.shutdown(socket.SHUT_WR)


class Layer:
    """The security layer of a context."""

    def __init__(self, context, encrypt):
        self.context, self.encrypt = context, encrypt

    def wrap(self, data):
        return self.context.wrap(data, self.encrypt).message

    def unwrap(self, data):
        result = self.context.unwrap(data)
        if self.encrypt and not result.encrypted:
            raise Refused("a message was not encrypted")
        return result.message


def plain(payload):
    _, user, password = payload.decode().split("\0")
    if OPTIONS.auth == "plain" and (user, password) != ("ada", "secret"):
        raise Refused("Error validating the login\n\tat org.apache.hive")


def kerberos(wire, token):
    import gssapi

    # An error raises at once, not at the next use of the context.
    gssapi.SecurityContext.__DEFER_STEP_ERRORS__ = False
    credential = gssapi.Credentials(usage="accept", store={"keytab": OPTIONS.keytab})
    context = gssapi.SecurityContext(creds=credential, usage="accept")
    while True:
        try:
            answer = context.step(token) or b""
        except gssapi.exceptions.GSSError as error:
            if OPTIONS.fault == "token" and error.token:
                # The mechanism's own error message, which Kerberos servers may send.
                wire.send(OK, error.token)
                wire.message()
            raise Refused("GSS initiate failed: " + error.gen_message().replace("\n", " "))
        if context.complete:
            break
        wire.send(OK, answer)
        token = wire.message()[1]
    if OPTIONS.fault == "early":
        wire.send(COMPLETE, answer)
        raise Refused("early")
    if answer:
        wire.send(OK, answer)
        if wire.message() != (OK, b""):
            raise Refused("the client must answer the last token by an empty message")
    offered = sum(LAYERS[name] for name in OPTIONS.qop.split(","))
    wire.send(OK, context.wrap(bytes([offered, 0xFF, 0xFF, 0xFF]), False).message)
    status, choice = wire.message()
    choice = context.unwrap(choice).message
    if status != COMPLETE or len(choice) != 4 or not choice[0] & offered:
        raise Refused("wrong choice of a security layer")
    if choice[0] == 1 and choice[1:] != b"\0\0\0":
        raise Refused("the size must be zero without a layer")
    print("logged in:", context.initiator_name, choice[0], file=sys.stderr, flush=True)
    return Layer(context, choice[0] == 4) if choice[0] > 1 else None


def log_in(wire):
    """The server's side of the login, as in Thrift's TSaslServerTransport."""
    if OPTIONS.auth == "nosasl":
        return Frames(wire, framed=False)
    status, mechanism = wire.message()
    if status != START:
        raise Refused("expected START")
    status, payload = wire.message()
    expected = b"GSSAPI" if OPTIONS.auth == "kerberos" else b"PLAIN"
    if mechanism != expected:
        raise Refused("Unsupported mechanism type " + mechanism.decode())
    layer = None
    if OPTIONS.auth == "kerberos":
        layer = kerberos(wire, payload)
    else:
        plain(payload)
    wire.send(COMPLETE)
    return Frames(wire, layer)


class Failed(Exception):
    """A statement that is refused."""


class Catalog:
    """Tables and partitions; queries are DuckDB's over the partitions' files."""

    def __init__(self, path):
        self.path, self.lock = path, threading.RLock()
        self.tables = {}
        if path and os.path.exists(path):
            self.tables = json.load(open(path))

    def save(self):
        if self.path:
            json.dump(self.tables, open(self.path, "w"))

    def table(self, name):
        if name not in self.tables:
            raise Failed("Error while compiling statement: FAILED: SemanticException [Error 10001]:"
                         f" Line 1:14 Table not found '{name}'\n\tat org.apache.hive")
        return self.tables[name]

    def execute(self, sql):
        for pattern, method in [
            (r"SHOW TABLES IN `(\w+)` LIKE '(\w+)'$", self.show),
            (r"CREATE EXTERNAL TABLE IF NOT EXISTS `(\w+)`\.`(\w+)` \((.*)\) PARTITIONED BY"
             r" \((.*)\) STORED AS PARQUET LOCATION '(.*)'$", self.create),
            (r"DESCRIBE `(\w+)`\.`(\w+)`$", self.describe),
            (r"SHOW PARTITIONS `(\w+)`\.`(\w+)`$", self.partitions),
            (r"ALTER TABLE `(\w+)`\.`(\w+)` ADD IF NOT EXISTS (PARTITION .*)$", self.add),
            (r"ALTER TABLE `(\w+)`\.`(\w+)` PARTITION \((.*?)\) SET LOCATION '(.*)'$", self.move),
            (r"(SELECT .* FROM) `(\w+)`\.`(\w+)`(.*)$", self.select),
        ]:
            match = re.match(pattern, sql, re.S)
            if match:
                with self.lock:
                    return method(*match.groups())
        raise Failed("Error while compiling statement: FAILED: ParseException line 1:0 cannot"
                     f" recognize input near '{sql.split()[0]}'")

    def show(self, database, name):
        if database not in ("default", "metrics"):
            raise Failed(f"Database '{database}' not found")
        return [[name]] if f"{database}.{name}" in self.tables else []

    def create(self, database, name, columns, partitioned, location):
        def split(text):
            found = re.findall(r"`(\w+)` ((?:map<.*?>|\w+))(?: COMMENT '(?:[^'\\]|\\.)*')?", text)
            return [list(column) for column in found]

        table = {"columns": split(columns), "keys": split(partitioned), "partitions": {}}
        self.tables.setdefault(f"{database}.{name}", table)
        self.save()

    def describe(self, database, name):
        table = self.table(f"{database}.{name}")
        keys = [[key, kind, ""] for key, kind in table["keys"]]
        rows = [[column, kind, ""] for column, kind in table["columns"]] + keys
        head = [["", None, None], ["# Partition Information", None, None]]
        return rows + head + [["# col_name", "data_type", "comment"]] + keys

    def partitions(self, database, name):
        return [[key] for key in sorted(self.table(f"{database}.{name}")["partitions"])]

    def add(self, database, name, specs):
        found = re.findall(r"PARTITION \((.*?)\) LOCATION '(.*?)'", specs)
        for spec, location in found:
            self.table(f"{database}.{name}")["partitions"].setdefault(self.key(spec), location)
        self.save()

    def move(self, database, name, spec, location):
        self.table(f"{database}.{name}")["partitions"][self.key(spec)] = location
        self.save()

    @staticmethod
    def key(spec):
        return "/".join(f"{key}={value}" for key, value in re.findall(r"`(\w+)`='(.*?)'", spec))

    def select(self, head, database, name, tail):
        import duckdb

        table = self.table(f"{database}.{name}")
        parts = []
        for key, location in table["partitions"].items():
            step, day = [part.split("=")[1] for part in key.split("/")]
            path = location.removeprefix("file://").replace("'", "''")
            files = [f for f in os.listdir(path) if f[0] not in "_."] if os.path.isdir(path) else []
            if files:
                parts.append(f"SELECT *, '{step}' AS step, '{day}' AS day FROM"
                             f" read_parquet('{path}/[!_.]*', hive_partitioning = false)")
        if not parts:
            return []
        sql = f"{head} published{tail}"
        # As Hive 4 does.
        if "CAST(`slot` AS DOUBLE)" in sql:
            raise Failed("Casting TIMESTAMP to double is prohibited")
        sql = sql.replace("map_keys(`tags`)[0]", "map_keys(`tags`)[1]")  # DuckDB counts from 1.
        sql = re.sub(r"concat_ws\(('[^']*'), (\w+\(`tags`\))\)", r"array_to_string(\2, \1)", sql)
        sql = sql.replace("\\'", "''").replace("\\\\", "\\").replace("`", '"')
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        database.execute("CREATE VIEW published AS " + " UNION ALL BY NAME ".join(parts))
        try:
            return [list(row) for row in database.execute(sql).fetchall()]
        except duckdb.Error as error:
            raise Failed(str(error))


def column(values):
    """A column of the protocol for these values."""
    nulls = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        if value is None:
            nulls[row // 8] |= 1 << row % 8
    known = [value for value in values if value is not None]
    kinds = [(bool, TBoolColumn, "boolVal", False), (int, TI64Column, "i64Val", 0),
             (float, TDoubleColumn, "doubleVal", 0.0), (object, TStringColumn, "stringVal", "")]
    for kind, made, field, empty in kinds:
        if all(isinstance(value, kind) for value in known):
            shown = [empty if value is None else value for value in values]
            if field == "stringVal":
                shown = [str(value) for value in shown]
            return TColumn(**{field: made(values=shown, nulls=bytes(nulls))})


SUCCESS = TStatus(statusCode=TStatusCode.SUCCESS_STATUS)


class Handler:
    """The service for one connection."""

    def __init__(self, catalog):
        self.catalog, self.results, self.looked = catalog, {}, set()

    def OpenSession(self, req):
        version = min(req.client_protocol, TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10)
        handle = TSessionHandle(THandleIdentifier(uuid.uuid4().bytes, uuid.uuid4().bytes))
        if OPTIONS.fault == "old":
            version = TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V5
        return TOpenSessionResp(SUCCESS, version, handle, {})

    def GetInfo(self, req):
        return TGetInfoResp(SUCCESS, TGetInfoValue(stringValue="Apache Hive"))

    def ExecuteStatement(self, req):
        sql = req.statement if isinstance(req.statement, str) else req.statement.decode()
        print("statement:", sql, file=sys.stderr, flush=True)
        try:
            rows = self.catalog.execute(sql)
        except Failed as error:
            return TExecuteStatementResp(TStatus(
                TStatusCode.ERROR_STATUS, sqlState="42000", errorMessage=str(error)))
        name = uuid.uuid4().bytes
        self.results[name] = rows
        handle = TOperationHandle(THandleIdentifier(name, b"0" * 16),
                                  TOperationType.EXECUTE_STATEMENT, rows is not None)
        return TExecuteStatementResp(SUCCESS, handle)

    def GetOperationStatus(self, req):
        # The first look finds it running.
        name = req.operationHandle.operationId.guid
        state = TOperationState.FINISHED_STATE
        if name not in self.looked:
            state = TOperationState.RUNNING_STATE
        self.looked.add(name)
        if OPTIONS.fault == "slow":
            state = TOperationState.RUNNING_STATE
        return TGetOperationStatusResp(status=SUCCESS, operationState=state)

    def FetchResults(self, req):
        name = req.operationHandle.operationId.guid
        rows, self.results[name] = (self.results[name][: req.maxRows],
                                    self.results[name][req.maxRows:])
        columns = [column(values) for values in zip(*rows)]
        # As in Hive, hasMoreRows says nothing.
        return TFetchResultsResp(SUCCESS, False, TRowSet(startRowOffset=0, rows=[],
                                                         columns=columns))

    def CancelOperation(self, req):
        print("cancelled", file=sys.stderr, flush=True)
        return TCancelOperationResp(SUCCESS)

    def CloseOperation(self, req):
        self.results.pop(req.operationHandle.operationId.guid)
        return TCloseOperationResp(SUCCESS)

    def CloseSession(self, req):
        return TCloseSessionResp(SUCCESS)


def serve(sock, catalog):
    wire = Wire(sock)
    try:
        if OPTIONS.fault == "silent":
            sock.recv(1)
            return sock.recv(1 << 20) and wire.read(1 << 30)
        transport = log_in(wire)
        protocol = TBinaryProtocol(transport)
        processor = TCLIService.Processor(Handler(catalog))
        while True:
            processor.process(protocol, protocol)
    except Refused as error:
        if str(error) != "early":
            wire.send(BAD, str(error).encode())
    except (TTransportException, OSError):
        pass
    finally:
        sock.close()


class Requests(http.server.BaseHTTPRequestHandler):
    """One connection of HTTP: each request is a call. Kerberos is asked for until a cookie is sent."""

    protocol_version = "HTTP/1.1"
    cookie = "hive.server2.auth=cu=ada"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.processor = TCLIService.Processor(HANDLER)

    def authorized(self):
        kind, _, value = (self.headers["Authorization"] or " ").partition(" ")
        if OPTIONS.auth == "nosasl":
            return not value
        value = base64.b64decode(value)
        if OPTIONS.auth != "kerberos":
            try:
                plain(b"\0" + value.replace(b":", b"\0", 1))
            except (Refused, ValueError):
                return False
            return kind == "Basic"
        if self.cookie in (self.headers["Cookie"] or ""):
            return True
        import gssapi

        credential = gssapi.Credentials(usage="accept", store={"keytab": OPTIONS.keytab})
        context = gssapi.SecurityContext(creds=credential, usage="accept")
        context.step(value)
        print("logged in:", context.initiator_name, "http", file=sys.stderr, flush=True)
        return kind == "Negotiate"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = 200, b""
        if self.path != "/" + OPTIONS.http:
            status, answer = 404, b"<html>nothing here</html>"
        elif not self.authorized():
            status, answer = 401, b"Authentication Error: no such user\n\tat org.apache.hive"
        else:
            made = TMemoryBuffer()
            self.processor.process(TBinaryProtocol(TMemoryBuffer(body)), TBinaryProtocol(made))
            answer = made.getvalue()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-thrift")
        if OPTIONS.auth == "kerberos":
            self.send_header("Set-Cookie", self.cookie + "; HttpOnly")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main():
    global HANDLER
    catalog = Catalog(OPTIONS.catalog)
    HANDLER = Handler(catalog)
    listener = socket.create_server(("127.0.0.1", 0))
    if OPTIONS.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(OPTIONS.tls)
        listener = context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)
    print("listening on", listener.getsockname()[1], flush=True)

    def one(sock, address):
        try:
            if OPTIONS.tls:
                sock.do_handshake()
            if OPTIONS.http:
                Requests(sock, address, None)
            else:
                serve(sock, catalog)
        except OSError as error:
            print("connection failed:", error, file=sys.stderr, flush=True)
        finally:
            sock.close()

    def accept():
        while True:
            sock, address = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=one, args=(sock, address), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--auth", default="none")
    parser.add_argument("--keytab")
    parser.add_argument("--qop", default="auth,auth-int,auth-conf")
    parser.add_argument("--http")
    parser.add_argument("--tls")
    parser.add_argument("--fault")
    parser.add_argument("--catalog")
    OPTIONS = parser.parse_args()
    main()
