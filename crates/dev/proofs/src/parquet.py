"""Adds up the Parquet files of a folder, once with DuckDB and once with pyarrow.

Prints a JSON object: for each reader a list of [step, day, measurement, field, tags as text, flow,
rows, total, covered_us, n, min, max], and the total of all counts of each step, added by DuckDB in
parallel.
"""

import collections
import glob
import json
import math
import sys

import duckdb
import pyarrow.parquet

folder = sys.argv[1]
pattern = f"{folder}/step=*/day=*/*.parquet"
table = f"read_parquet('{pattern}', hive_partitioning = true, hive_types_autocast = false)"


def text(tags):
    return ",".join(f"{key}={value}" for key, value in sorted(tags))


def by_duckdb():
    rows = duckdb.sql(
        f"""SELECT step, day, measurement, field, tags, flow, count(*), sum(total),
                   sum(covered_us)::bigint, sum(n)::bigint, min(min), max(max)
            FROM {table} GROUP BY ALL"""
    ).fetchall()
    return [[*row[:4], text(row[4].items()), *row[5:]] for row in rows]


def by_pyarrow():
    sums = collections.defaultdict(list)
    for path in glob.glob(pattern):
        step, day = (part.split("=")[1] for part in path.split("/")[-3:-1])
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
            assert row["slot"].isoformat().startswith(day), (row["slot"], day)
            key = (step, day, row["measurement"], row["field"], text(row["tags"]), row["flow"])
            sums[key].append(row)
    def of(rows, name):
        return [row[name] for row in rows if row[name] is not None]
    return [
        [
            *key,
            len(rows),
            math.fsum(of(rows, "total")),
            sum(of(rows, "covered_us")),
            sum(of(rows, "n")),
            min(of(rows, "min"), default=None),
            max(of(rows, "max"), default=None),
        ]
        for key, rows in sums.items()
    ]


counts = duckdb.sql(f"SELECT step, sum(total) FROM {table} WHERE flow GROUP BY step").fetchall()
print(json.dumps({"duckdb": by_duckdb(), "pyarrow": by_pyarrow(), "counts": dict(counts)}))
