//! Random data sources, updates and fetches, in which rare cases are frequent.

use base::{Rng, Seed};
use rand::RngExt as _;
use series::rrd::{Archive, Consolidation, Definition, Reading, Rrd, SourceKind};
use series::{SECOND_US, Step};

/// One data source, its updates and fetches.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) definition: Definition,
    pub(crate) start_us: i64,
    /// The updates of each command.
    pub(crate) batches: Vec<Vec<Update>>,
    pub(crate) fetches: Vec<Fetch>,
}

/// A reading at a time.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) at_us: i64,
    pub(crate) reading: String,
}

/// What is read.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) consolidation: Consolidation,
    pub(crate) start_s: i64,
    pub(crate) end_s: i64,
    pub(crate) resolution_s: i64,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

impl Sequence {
    /// The sequence of that number.
    pub(crate) fn random(seed: Seed, index: u64) -> Sequence {
        let mut rng = seed.derive("sequence", index).rng("agreement");
        let rng = &mut rng;
        let step_s = pick(rng, &[1, 2, 5, 7, 10, 10, 60, 60, 300, 300, 3600]);
        let definition = definition(rng, step_s);
        let start_s = 1_000_000_000 + rng.random_range(0..200_000_000);
        let updates = updates(rng, &definition, start_s, step_s);
        let last_s = updates.iter().map(|u| u.at_us / SECOND_US).max().unwrap_or(start_s);
        let fetches = fetches(rng, &definition, start_s, last_s, step_s);
        let mut batches = Vec::new();
        let mut rest = updates.as_slice();
        while !rest.is_empty() {
            let size = if rng.random_bool(0.7) { 1 } else { rng.random_range(1..=8) };
            let (batch, after) = rest.split_at(size.min(rest.len()));
            batches.push(batch.to_vec());
            rest = after;
        }
        let mut sequence = Sequence { definition, start_us: start_s * SECOND_US, batches, fetches };
        sequence.leave_out_what_rrdtool_overlooks();
        sequence
    }

    /// Replaces malformed readings that rrdtool would ignore by unknown ones.
    ///
    /// It ignores them after a gap longer than the heartbeat, and for a DCOUNTER or DDERIVE without
    /// a predecessor; we always refuse them.
    fn leave_out_what_rrdtool_overlooks(&mut self) {
        let Ok(mut rrd) = Rrd::new(self.definition.clone(), self.start_us) else { return };
        let kind = self.definition.kind;
        let floating = matches!(kind, SourceKind::Dcounter | SourceKind::Dderive);
        for batch in &mut self.batches {
            for update in batch {
                let overlooked = update.at_us - rrd.last_us() > self.definition.heartbeat_us
                    || (floating && rrd.last() == Reading::Unknown);
                let reading = match Reading::parse(kind, &update.reading) {
                    Ok(reading) => reading,
                    Err(_) if overlooked => {
                        update.reading = "U".to_owned();
                        Reading::Unknown
                    }
                    Err(_) => break,
                };
                if rrd.update(update.at_us, reading).is_err() {
                    break;
                }
            }
        }
    }

    /// The commands for rrdtool, in the order in which they are compared.
    pub(crate) fn commands(&self, file: &str) -> Vec<String> {
        let mut commands = vec![self.create(file)];
        for batch in &self.batches {
            let updates: Vec<String> = batch.iter().map(Update::text).collect();
            commands.push(format!("update {file} {}", updates.join(" ")));
        }
        for fetch in &self.fetches {
            commands.push(format!(
                "fetch {file} {} --start {} --end {} --resolution {}",
                fetch.consolidation.name(),
                fetch.start_s,
                fetch.end_s,
                fetch.resolution_s
            ));
        }
        commands
    }

    fn create(&self, file: &str) -> String {
        let d = &self.definition;
        let bound = |bound: Option<f64>| bound.map_or("U".to_owned(), |b| b.to_string());
        let mut command = format!(
            "create {file} --start {} --step {} DS:x:{}:{}:{}:{}",
            self.start_us / SECOND_US,
            d.step.us() / SECOND_US,
            d.kind.name(),
            d.heartbeat_us / SECOND_US,
            bound(d.min),
            bound(d.max)
        );
        for archive in &d.archives {
            let Archive { consolidation, xff, steps, rows } = archive;
            command += &format!(" RRA:{}:{xff}:{steps}:{rows}", consolidation.name());
        }
        command
    }
}

impl Update {
    /// `time:reading`, with as many decimals of the second as necessary.
    pub(crate) fn text(&self) -> String {
        let (s, us) = (self.at_us / SECOND_US, self.at_us % SECOND_US);
        match us {
            0 => format!("{s}:{}", self.reading),
            us => format!("{s}.{us:06}:{}", self.reading),
        }
    }
}

fn definition(rng: &mut Rng, step_s: i64) -> Definition {
    let heartbeat_s = match rng.random_range(0..9) {
        0 => step_s,
        1 => (step_s / 2).max(1),
        2 => step_s * 2,
        3 => step_s * 2 + rng.random_range(0..=step_s),
        4 => rng.random_range(1..=step_s * 5),
        5 | 6 => step_s * 20,
        _ => step_s * 200,
    };
    let kind = pick(rng, &SourceKind::ALL);
    let (min, max) = match rng.random_range(0..10) {
        0 => (Some(0.0), None),
        1 => (None, Some(pick(rng, &[1.0, 50.0, 1000.0, 12.5e6]))),
        2 => (Some(pick(rng, &[-10.0, 0.0, 0.5])), Some(pick(rng, &[10.0, 100.0, 1e9]))),
        _ => (None, None),
    };
    let archives = (0..rng.random_range(1..=5)).map(|_| archive(rng)).collect();
    Definition {
        kind,
        step: Step::from_secs(step_s).expect("the steps above are whole seconds"),
        heartbeat_us: heartbeat_s * SECOND_US,
        min,
        max,
        archives,
    }
}

fn archive(rng: &mut Rng) -> Archive {
    let xff = match rng.random_range(0..3) {
        0 => pick(rng, &[0.0, 0.5, 0.99]),
        1 => pick(rng, &[0.1, 0.25, 0.3333, 0.75, 0.999]),
        _ => f64::from(rng.random_range(0..1000)) / 1000.0,
    };
    Archive {
        consolidation: pick(rng, &Consolidation::ALL),
        xff,
        steps: pick(rng, &[1, 1, 2, 3, 4, 5, 6, 7, 10, 12]),
        rows: pick(rng, &[1, 2, 3, 5, 8, 13, 40, 100]),
    }
}

fn updates(rng: &mut Rng, definition: &Definition, start_s: i64, step_s: i64) -> Vec<Update> {
    let heartbeat_s = definition.heartbeat_us / SECOND_US;
    let mut readings = Readings::new(rng, definition.kind);
    let mut at_s = start_s;
    // Some sequences are regular, so that there are long known stretches.
    let tame = rng.random_bool(0.5);
    (0..rng.random_range(5..=80))
        .map(|_| {
            let choice = if tame { rng.random_range(0..5) } else { rng.random_range(0..12) };
            let next_s = match choice {
                0 => at_s + 1,
                1 | 2 => at_s + rng.random_range(1..=step_s),
                3 => (at_s / step_s + 1) * step_s,
                4 => at_s + step_s,
                5 => at_s + rng.random_range(1..=step_s * 4),
                6 => (at_s / step_s + rng.random_range(1..=9)) * step_s,
                7 => at_s + heartbeat_s,
                8 => at_s + heartbeat_s + 1,
                9 => at_s + heartbeat_s + rng.random_range(0..=step_s * 3),
                10 if rng.random_bool(0.2) => at_s + rng.random_range(1..=step_s * 60),
                10 => at_s + 2 * step_s,
                _ => at_s - rng.random_range(0..=step_s),
            };
            at_s = at_s.max(next_s);
            Update { at_us: next_s * SECOND_US, reading: readings.next(rng) }
        })
        .collect()
}

/// Makes readings of one kind.
struct Readings {
    kind: SourceKind,
    integer: i128,
    real: f64,
    /// Maximum change of an integer.
    stride: i128,
}

impl Readings {
    fn new(rng: &mut Rng, kind: SourceKind) -> Readings {
        const WRAP_32: i128 = 1 << 32;
        const WRAP_64: i128 = 1 << 64;
        let integer = pick(
            rng,
            &[0, 5, 1000, WRAP_32 - 500, WRAP_32 + 7, 1 << 53, WRAP_64 - 500, WRAP_64 - 70_000],
        );
        let integer =
            if kind == SourceKind::Derive && rng.random_bool(0.4) { -integer } else { integer };
        Readings {
            kind,
            integer,
            real: f64::from(rng.random_range(-1000..1000)) * 0.37,
            stride: pick(rng, &[10, 300, 10_000, 1 << 30, 1 << 40]),
        }
    }

    fn next(&mut self, rng: &mut Rng) -> String {
        if rng.random_bool(0.07) {
            return "U".to_owned();
        }
        match self.kind {
            SourceKind::Counter => self.counter(rng),
            SourceKind::Derive => self.derive(rng),
            SourceKind::Dcounter | SourceKind::Dderive => self.moving(rng),
            SourceKind::Gauge => real(rng, true),
            SourceKind::Absolute => real(rng, false),
        }
    }

    fn counter(&mut self, rng: &mut Rng) -> String {
        self.integer += rng.random_range(0..self.stride);
        match rng.random_range(0..20) {
            0 => self.integer = rng.random_range(0..1000),
            1 => self.integer %= 1 << 32,
            2 => self.integer = (1 << 32) - rng.random_range(1..500),
            3 => {
                return pick(
                    rng,
                    &[
                        "007",
                        "0",
                        "-5",
                        "1.5",
                        "+5",
                        "nan",
                        "18446744073709551615",
                        "99999999999999999999999",
                    ],
                )
                .to_owned();
            }
            _ => {}
        }
        self.integer %= 1 << 64;
        self.integer.to_string()
    }

    fn derive(&mut self, rng: &mut Rng) -> String {
        self.integer += rng.random_range(-self.stride..self.stride);
        match rng.random_range(0..20) {
            0 => self.integer = -self.integer,
            1 => {
                return pick(
                    rng,
                    &["-0", "0", "-007", "--5", "1e3", "9999999999999999999999999999"],
                )
                .to_owned();
            }
            _ => {}
        }
        self.integer.to_string()
    }

    fn moving(&mut self, rng: &mut Rng) -> String {
        match rng.random_range(0..16) {
            0 => self.real = -self.real,
            1 => self.real = 0.0,
            2 => return real(rng, true),
            3..8 => self.real += f64::from(rng.random_range(-50_000..50_000)) / 1000.0,
            _ => {
                let away = f64::from(rng.random_range(0..90_000)) / 1000.0;
                self.real += if self.real < 0.0 { -away } else { away };
            }
        }
        match rng.random_range(0..4) {
            0 => format!("{:.3}", self.real),
            1 => format!("{:.9}", self.real),
            2 => format!("{:.6e}", self.real),
            _ => self.real.to_string(),
        }
        .chars()
        .take(29)
        .collect()
    }
}

/// A floating-point number in one of the many possible notations.
fn real(rng: &mut Rng, signed: bool) -> String {
    let digits = rng.random_range(0..1_000_000_000_i64);
    let number = match rng.random_range(0..10) {
        0 => format!("{}", digits % 100),
        1 => format!("{}.{:03}", digits % 1000, digits % 997),
        2 => format!("0.{digits:09}"),
        3 => format!("{digits}.{digits:09}"),
        4 => format!("{}e{}", digits % 1000, rng.random_range(-20..20)),
        5 => format!("{}.{}E{}", digits % 10, digits % 9973, rng.random_range(-300..300)),
        6 => pick(rng, &["0", ".5", "5.", "1e", "0.1", "1e-320", "+3", "-0"]).to_owned(),
        7 if rng.random_bool(0.3) => {
            pick(rng, &["nan", "NaN", "inf", "-inf", "x", "1x", "1e999", "1e-999", "1e2000"])
                .to_owned()
        }
        _ => format!("{}", digits as f64 / 1e4),
    };
    if signed && rng.random_bool(0.2) && number.starts_with(|c: char| c.is_ascii_digit()) {
        format!("-{number}")
    } else {
        number
    }
}

fn fetches(
    rng: &mut Rng,
    definition: &Definition,
    start_s: i64,
    last_s: i64,
    step_s: i64,
) -> Vec<Fetch> {
    let mut fetches: Vec<Fetch> = definition
        .archives
        .iter()
        .map(|archive| {
            // Near the end of what is kept, so that the rows are in the result however long the
            // sequence was.
            let row_s = archive.steps * step_s;
            let from_s = (last_s - row_s * (archive.rows + 2).min(60)).max(start_s - 3 * row_s);
            Fetch {
                consolidation: archive.consolidation,
                start_s: from_s,
                end_s: last_s + rng.random_range(0..=2 * row_s),
                resolution_s: row_s,
            }
        })
        .collect();
    for _ in 0..2 {
        let from_s = last_s - rng.random_range(0..=step_s * 100);
        fetches.push(Fetch {
            consolidation: pick(rng, &Consolidation::ALL),
            start_s: from_s,
            end_s: from_s + rng.random_range(-1..=step_s * 20),
            resolution_s: rng.random_range(1..=step_s * 12),
        });
    }
    fetches
}
