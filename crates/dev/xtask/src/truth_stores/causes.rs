//! Why a store does not have the truth, with the place where its documents or its source say so.

/// The cause of what some stores do in some trials.
struct Cause {
    stores: &'static [&'static str],
    trials: &'static [&'static str],
    words: &'static str,
}

const TACHOGRAPH: &[&str] = &["tachograph, SQLite", "tachograph, PostgreSQL"];
const RRDTOOL: &[&str] = &["RRDtool", "RRDtool, rrdcached"];
const GRAPHITE: &[&str] = &["Graphite, carbon-cache", "Graphite, go-carbon"];
const INFLUX: &[&str] = &["InfluxDB 1"];
const PROMETHEUS: &[&str] = &["Prometheus"];
const VICTORIA: &[&str] = &["VictoriaMetrics"];
const STATSD: &[&str] = &["StatsD, Graphite"];
const SCRAPED: &[&str] = &["Prometheus, scraped"];
const QUESTDB: &[&str] = &["QuestDB"];
const TABLES: &[&str] = &["PostgreSQL, upsert", "DuckDB"];
const ROWS: &[&str] = &["PostgreSQL, upsert", "DuckDB", "QuestDB", "chDB (ClickHouse)"];

const CAUSES: &[Cause] = &[
    Cause {
        stores: TACHOGRAPH,
        trials: &["ahead"],
        words: "what lies more than ten minutes ahead is refused, with status 400 and the reason (docs/serve.md)",
    },
    Cause {
        stores: &["tachograph, datagrams"],
        trials: &["corrected"],
        words: "a negative count is refused: `/metrics` counts it (`negative_counter`), but a datagram has no answer that would tell the sender",
    },
    Cause {
        stores: &["RRDtool"],
        trials: &["kills"],
        words: "an update that was killed may have set the file's time and not yet its value; its repetition is refused",
    },
    Cause {
        stores: PROMETHEUS,
        trials: &["power"],
        words: "samples are acknowledged before they are synced, and those that are gone leave hours without a sample from which `increase` could count",
    },
    Cause {
        stores: &["tachograph, datagrams"],
        trials: &["twice"],
        words: "a datagram has no name by which a repetition could be known",
    },
    Cause {
        stores: &["tachograph, datagrams"],
        trials: &["restart", "kills", "power"],
        words: "datagrams that arrive while it is down are lost, and so are those of the last 10 ms, which are not in the journal yet (docs/serve.md)",
    },
    Cause {
        stores: &["tachograph, datagrams"],
        trials: &["full-disk"],
        words: "while the journal cannot be written, datagrams are not read, and the kernel drops those that its buffer cannot hold",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["ahead"],
        words: "a slot that lies ahead cannot be read before its time (whisper's `fetch` ends now)",
    },
    Cause {
        stores: RRDTOOL,
        trials: &["one-name", "hour-late", "day-late"],
        words: "an update at or before the time of the last one is refused (rrdupdate(1))",
    },
    Cause {
        stores: RRDTOOL,
        trials: &["shuffled"],
        words: "an update at or before the time of the last one is refused (rrdupdate(1)); the count of one that is taken is spread over the time since the last one, a part of which may be of another hour, or unknown",
    },
    Cause {
        stores: &["RRDtool, rrdcached"],
        trials: &["kills"],
        words: "the journal is written by `fprintf` without `fflush` (`journal_write` in src/rrd_daemon.c), so the last kilobytes of acknowledged updates are only in memory",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["published", "rates"],
        words: "the last point of a slot wins, and does not say how long its value held (whisper's `update`)",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["crossing"],
        words: "a point is of one slot, so a count cannot be of two",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["one-name"],
        words: "the last point of a slot wins: it is the sum of one of the two senders",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["restart", "kills"],
        words: "nothing is acknowledged, and what the daemon's cache and its sockets hold is gone when it ends; a later point of the same slot brings the sum back",
    },
    Cause {
        stores: INFLUX,
        trials: &["published", "rates"],
        words: "`integral()` draws a straight line from each point to the next (functions of InfluxQL), where the rate has a step",
    },
    Cause {
        stores: GRAPHITE,
        trials: &["full-disk"],
        words: "nothing is acknowledged, so no sender repeats what cannot be written",
    },
    Cause {
        stores: INFLUX,
        trials: &["full-disk"],
        words: "it still refuses every write when there has been space again for five seconds",
    },
    Cause {
        stores: INFLUX,
        trials: &["one-name"],
        words: "a point with the series and time of another one replaces it (“How does InfluxDB handle duplicate points?”)",
    },
    Cause {
        stores: PROMETHEUS,
        trials: &["published", "rates"],
        words: "`avg_over_time` gives all samples the same weight, however long their values held (functions of PromQL)",
    },
    Cause {
        stores: PROMETHEUS,
        trials: &["crossing"],
        words: "no sample lies on the end of the hour, so `increase` extrapolates (functions of PromQL)",
    },
    Cause {
        stores: VICTORIA,
        trials: &["crossing"],
        words: "no sample lies on the end of the hour, and `increase` takes the last one before it",
    },
    Cause {
        stores: &["Prometheus", "VictoriaMetrics"],
        trials: &["one-name"],
        words: "two counters in one series: each time the lower one follows, it seems to have begun again, and is added as a whole",
    },
    Cause {
        stores: VICTORIA,
        trials: &["full-disk"],
        words: "with less than 100 MB of free space it refuses writes (`-storage.minFreeDiskSpaceBytes`), but what it acknowledged before it noticed is only in memory, and it ends when it cannot write that",
    },
    Cause {
        stores: VICTORIA,
        trials: &["kills", "power"],
        words: "samples are acknowledged when they are in memory, and written to disk every second (`-inmemoryDataFlushInterval`, of which this is the shortest)",
    },
    Cause {
        stores: INFLUX,
        trials: &["crossing"],
        words: "a point has one time, so a count cannot be of two slots or hours",
    },
    Cause {
        stores: ROWS,
        trials: &["crossing"],
        words: "a row has one time, so a count cannot be of two slots or hours",
    },
    Cause {
        stores: ROWS,
        trials: &["published", "rates"],
        words: "a row has one time, so what happened in an interval is all in the slot of its end",
    },
    Cause {
        stores: TABLES,
        trials: &["twice"],
        words: "the table does not know which messages it has",
    },
    Cause {
        stores: RRDTOOL,
        trials: &["power"],
        words: "nothing is synced: updates are written to the kernel's memory (`rrd_write` copies to a mapping of the file)",
    },
    Cause {
        stores: &["Graphite, go-carbon"],
        trials: &["power"],
        words: "nothing is acknowledged, and neither what the daemon holds nor what it has written to its files is synced",
    },
    Cause {
        stores: &["Graphite, carbon-cache"],
        trials: &["power"],
        words: "nothing is acknowledged, and what the daemon's cache and its sockets hold is gone",
    },
    Cause {
        stores: INFLUX,
        trials: &["power"],
        words: "it never gets ready again: opening its files of series fails, and then `SeriesFile.Open` calls `Close`, which waits for the lock that `Open` holds (seen in a stack of the process)",
    },
    Cause {
        stores: STATSD,
        trials: &["twice"],
        words: "a datagram has no name by which a repetition could be known",
    },
    Cause {
        stores: STATSD,
        trials: &["restart", "kills", "power"],
        words: "it holds the counts of up to ten seconds in memory, and does not flush them when it ends",
    },
    Cause {
        stores: STATSD,
        trials: &["steps"],
        words: "what it flushes while its clock is ahead lies in slots that cannot be read before their time (whisper's `fetch` ends now)",
    },
    Cause {
        stores: STATSD,
        trials: &["full-disk"],
        words: "carbon-cache cannot write them, and StatsD does not send them again",
    },
    Cause {
        stores: SCRAPED,
        trials: &["live"],
        words: "`increase` extrapolates from the first and the last reading in the time to its beginning and end (functions of PromQL)",
    },
    Cause {
        stores: QUESTDB,
        trials: &["one-name"],
        words: "a row with the timestamp and the sender of another one replaces it (`DEDUP UPSERT KEYS`)",
    },
    Cause {
        stores: &["DuckDB"],
        trials: &["full-disk"],
        words: "the row that was refused while the disk was full, and then taken, is there in a query without `WHERE`, and not in one with `WHERE`, also after a restart (tried by hand)",
    },
    Cause {
        stores: TABLES,
        trials: &["kills"],
        words: "a transaction may be committed although its answer is lost; the sender repeats it, and it counts twice",
    },
];

/// Why a store does not have the truth in a trial.
pub(super) fn cause(store: &str, trial: &str) -> Option<&'static str> {
    let concerns = |cause: &&Cause| cause.stores.contains(&store) && cause.trials.contains(&trial);
    CAUSES.iter().find(concerns).map(|cause| cause.words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth_stores::stores::STORES;
    use crate::truth_stores::trials::TRIALS;

    #[test]
    fn causes_are_of_stores_and_trials_that_exist() {
        for Cause { stores, trials, .. } in CAUSES {
            for name in *stores {
                assert!(STORES.iter().any(|store| store.name == *name), "{name}");
            }
            for id in *trials {
                assert!(TRIALS.iter().any(|trial| trial.id == *id), "{id}");
            }
        }
    }
}
