#!/usr/bin/env python3
"""kv_client.py ADDRESS SECRET get KEY | set KEY VALUE: as client.cpp, in Python."""
import struct
import sys

import weft

ENTRIES, PROBES, ENTRY = 4096, 8, struct.Struct("<QQII40s192s")


def fnv(data, start=0xcbf29ce484222325):
    for byte in data:
        start = (start ^ byte) * 0x100000001b3 % 2**64
    return start


def find(table, key):
    first = fnv(key) % (ENTRIES - PROBES)
    for _ in range(1000):
        data = table.get(first * ENTRY.size, PROBES * ENTRY.size)
        for version, checksum, key_bytes, value_bytes, name, value in ENTRY.iter_unpack(data):
            if version == 0:
                return None
            name, value = name[:key_bytes], value[:value_bytes]
            if version % 2 or checksum != fnv(value, fnv(name)) ^ version:
                break  # read in the middle of a change: once more
            if name == key:
                return value
        else:
            return None
    return None


def main(address, secret, command, key, value=b""):
    with weft.Node("kv client in Python", secret=secret) as node:
        server = node.connect(address)
        answers = (event.data for event in node.events(10) if event.kind == weft.MESSAGE)
        memory_key = next(answers)
        if command == "set":
            server.send(b"s" + bytes([len(key)]) + key + value)
            answer = next(answers)
            return 0 if answer == b"k" else f"kv_client.py: {answer.decode()}"
        found = find(server.memory(memory_key), key)
        if found is None:
            return "kv_client.py: no such key"
        print(found.decode())
        return 0


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:4], *(argument.encode() for argument in sys.argv[4:])))
    except weft.Error as error:
        sys.exit(f"kv_client.py: {error}")
