"""Reads a table of Delta Lake again and again until standard input ends.

Prints each reading as a line of JSON: the version, and for each step the sums of its rows. At the end
each version that was read, and the last one, is read when nothing changes.
"""

import json
import select
import sys

from deltalake import DeltaTable, QueryBuilder

SUMS = """SELECT step, count(slot), sum(n), sum(covered_us), sum(total) FROM slots
          GROUP BY step ORDER BY step"""


def read(folder, version=None):
    table = DeltaTable(folder, version=version)
    result = QueryBuilder().register("slots", table).execute(SUMS).read_all()
    columns = [result.column(at).to_pylist() for at in range(5)]
    return table.version(), list(zip(*columns))


versions = set()
while not select.select([sys.stdin], [], [], 0)[0]:
    version, sums = read(sys.argv[1])
    versions.add(version)
    print(json.dumps({"during": True, "version": version, "sums": sums}), flush=True)
versions.add(DeltaTable(sys.argv[1]).version())
for version in sorted(versions):
    print(json.dumps({"during": False, "version": version, "sums": read(sys.argv[1], version)[1]}))
