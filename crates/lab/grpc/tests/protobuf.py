"""Random messages of random types, by a seed: as JSON, and compared with what was made of it.

    protobuf.py make COUNT SEED            lines of descriptors (base64), type and JSON
    protobuf.py check COUNT SEED < LINES   the encoded messages (hexadecimal), a line each
"""

import base64
import random
import sys

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, empty_pb2
from google.protobuf import field_mask_pb2, json_format, message_factory, struct_pb2
from google.protobuf import timestamp_pb2, wrappers_pb2

FIELD = descriptor_pb2.FieldDescriptorProto
KNOWN = [any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2]
KNOWN_TYPES = [
    "Any", "Duration", "Empty", "FieldMask", "Struct", "Value", "ListValue", "Timestamp",
    "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value",
    "BoolValue", "StringValue", "BytesValue",
]
SCALARS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18]
KEYS = [3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18]
RANGES = {
    3: (-2**63, 2**63 - 1), 4: (0, 2**64 - 1), 5: (-2**31, 2**31 - 1), 6: (0, 2**64 - 1),
    7: (0, 2**32 - 1), 13: (0, 2**32 - 1), 15: (-2**31, 2**31 - 1), 16: (-2**63, 2**63 - 1),
    17: (-2**31, 2**31 - 1), 18: (-2**63, 2**63 - 1),
}
MEMBERS = [0, 1, 7, -3]


def descriptors(rng):
    """A file with an enum, a small message and a large one."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t.v1")
    syntax = rng.choice(["proto2", "proto3", "editions"])
    file.syntax = syntax
    if syntax == "editions":
        file.edition = descriptor_pb2.EDITION_2023
        if rng.random() < 0.5:
            file.options.features.field_presence = rng.choice([1, 2])
        if rng.random() < 0.5:
            file.options.features.repeated_field_encoding = rng.choice([1, 2])
        if rng.random() < 0.3:
            file.options.features.message_encoding = 2
    for known in KNOWN:
        file.dependency.append(known.DESCRIPTOR.name)
    # A prefix, because the values of an enum share the names of its file.
    enum = file.enum_type.add(name="Colour")
    for at, number in enumerate(MEMBERS):
        enum.value.add(name=f"COLOUR_{at}", number=number)
    small = file.message_type.add(name="Small")
    small.field.add(name="first_id", number=2, type=5, label=1)
    small.field.add(name="name", number=1, type=9, label=1)
    large = file.message_type.add(name="Large")
    numbers = rng.sample(range(1, 3_000), 30)
    for number in numbers:
        add_field(rng, file, large, number, syntax)
    return file


def add_field(rng, file, large, number, syntax):
    name = f"{rng.choice(['a', 'long_name', 'x_1y', 'Q'])}_{number}"
    shape = rng.choice(["single", "single", "repeated", "map", "one_of", "optional"])
    kind = rng.choice([*SCALARS, 11, 11, 11])
    if syntax == "proto2" and shape == "single" and rng.random() < 0.1:
        nested = large.nested_type.add(name=f"Group{number}")
        nested.field.add(name="inside", number=1, type=5, label=1)
        large.field.add(name=f"group{number}", number=number, type=10, label=1,
                        type_name=f".t.v1.Large.Group{number}")
        return
    type_name = None
    if kind == 11:
        type_name = rng.choice([".t.v1.Small", ".google.protobuf." + rng.choice(KNOWN_TYPES)])
    if kind == 14:
        type_name = ".t.v1.Colour"
    if shape == "map":
        entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        entry = large.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=rng.choice(KEYS), label=1)
        entry.field.add(name="value", number=2, type=kind, label=1, type_name=type_name)
        large.field.add(name=name, number=number, type=11, label=3,
                        type_name=f".t.v1.Large.{entry_name}")
        return
    field = large.field.add(name=name, number=number, type=kind, label=1, type_name=type_name)
    if shape == "repeated":
        field.label = 3
        if kind not in (9, 11, 12) and syntax != "editions" and rng.random() < 0.5:
            field.options.packed = rng.random() < 0.5
    elif shape == "one_of":
        if not large.oneof_decl:
            large.oneof_decl.add(name="choice")
        field.oneof_index = 0
    elif syntax == "proto2" and kind != 11 and rng.random() < 0.2:
        field.label = 2


def classes(file):
    pool = descriptor_pool.DescriptorPool()
    for known in KNOWN:
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return pool


def number(rng, low, high):
    near = [low, high, 0, 1, -1, 127, 128, 2**31]
    value = rng.choice(near) if rng.random() < 0.4 else rng.randint(low, high)
    return min(max(value, low), high)


def scalar(rng, kind):
    if kind in RANGES:
        return number(rng, *RANGES[kind])
    if kind in (1, 2):
        special = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e30, -2.25e-20]
        return rng.choice(special) if rng.random() < 0.5 else rng.uniform(-1e6, 1e6)
    if kind == 8:
        return rng.random() < 0.5
    if kind == 14:
        return rng.choice(MEMBERS)
    if kind == 9:
        return "".join(rng.choice('ab"\\\n\u00e9\u6f22\U0001f600 ') for _ in range(rng.randint(0, 9)))
    return rng.randbytes(rng.randint(0, 20))


def plain(rng, depth=0):
    kind = rng.randint(0, 5 if depth < 3 else 3)
    if kind == 0:
        return None
    if kind == 1:
        return rng.choice([0.0, -1.5, 1e10, float(rng.randint(-10**9, 10**9))])
    if kind == 2:
        return scalar(rng, 9)
    if kind == 3:
        return rng.random() < 0.5
    if kind == 4:
        return [plain(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {scalar(rng, 9): plain(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def fill(rng, message, pool):
    """Draws a message of any type but the large one."""
    name = message.DESCRIPTOR.full_name
    short = name.removeprefix("google.protobuf.")
    if short == "Any":
        if rng.random() < 0.9:
            inner = rng.choice(["t.v1.Small", "google.protobuf.Duration", "google.protobuf.Value",
                                "google.protobuf.Int64Value", "google.protobuf.Empty"])
            cls = message_factory.GetMessageClass(pool.FindMessageTypeByName(inner))
            message.type_url = "type.googleapis.com/" + inner
            message.value = fill(rng, cls(), pool).SerializeToString(deterministic=True)
    elif short == "Duration":
        sign = rng.choice([1, -1])
        message.seconds = sign * rng.choice([0, rng.randint(0, 315_576_000_000)])
        message.nanos = sign * rng.choice([0, 1, 500_000_000, 999_999_999])
    elif short == "Timestamp":
        message.seconds = rng.choice([0, -1, rng.randint(-62_135_596_800, 253_402_300_799)])
        message.nanos = rng.choice([0, 1, 500_000_000, 999_999_999])
    elif short == "FieldMask":
        message.paths.extend(rng.sample(["a", "long_name.b", "c_d"], rng.randint(0, 3)))
    elif short in ("Struct", "Value", "ListValue"):
        value = plain(rng)
        if short == "Struct":
            json_format.ParseDict(value if isinstance(value, dict) else {}, message)
        elif short == "ListValue":
            json_format.ParseDict(value if isinstance(value, list) else [], message)
        else:
            json_format.ParseDict(value, message)
    elif short.endswith("Value"):
        message.value = scalar(rng, message.DESCRIPTOR.fields_by_name["value"].type)
    elif name == "t.v1.Small" or "Group" in name:
        for field in message.DESCRIPTOR.fields:
            if rng.random() < 0.7:
                setattr(message, field.name, scalar(rng, field.type))
    return message


def fill_large(rng, message, pool):
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and rng.random() < 0.3:
            continue
        target = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(rng.randint(0, 4)):
                at = scalar(rng, key.type)
                if value.message_type:
                    fill(rng, target[at], pool)
                else:
                    target[at] = scalar(rng, value.type)
        elif field.is_repeated:
            for _ in range(rng.randint(0, 4)):
                if field.message_type:
                    fill(rng, target.add(), pool)
                else:
                    target.append(scalar(rng, field.type))
        elif field.message_type:
            target.SetInParent()
            fill(rng, target, pool)
        else:
            setattr(message, field.name, scalar(rng, field.type))
    return message


def case(seed, at):
    rng = random.Random(f"{seed} {at}")
    file = descriptors(rng)
    pool = classes(file)
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.v1.Large"))
    message = fill_large(rng, cls(), pool)
    as_json = json_format.MessageToJson(
        message, indent=None, descriptor_pool=pool,
        preserving_proto_field_name=rng.random() < 0.3,
        use_integers_for_enums=rng.random() < 0.3,
        always_print_fields_with_no_presence=rng.random() < 0.3)
    service = file.service.add(name="S")
    service.method.add(name="M", input_type=".t.v1.Large", output_type=".t.v1.Large")
    files = [descriptor_pb2.FileDescriptorProto.FromString(one.DESCRIPTOR.serialized_pb)
             for one in KNOWN]
    files.append(file)
    rng.shuffle(files)
    return descriptor_pb2.FileDescriptorSet(file=files), cls, message, as_json


def main():
    what, count, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    for at in range(count):
        files, cls, message, as_json = case(seed, at)
        if what == "make":
            print(base64.b64encode(files.SerializeToString()).decode(), as_json, sep="\t")
            continue
        line = sys.stdin.readline().strip()
        got = cls()
        got.ParseFromString(bytes.fromhex(line))
        wanted = message.SerializeToString(deterministic=True)
        if got.SerializeToString(deterministic=True) != wanted:
            sys.exit(f"case {at}: {as_json}\nwanted {message}\ngot {got}")
        if len(line) // 2 != len(wanted):
            sys.exit(f"case {at}: {as_json}\n{len(line) // 2} bytes instead of {len(wanted)}")
    if what == "check":
        print("all equal")


main()
