//! The output of `rrdtool dump`.
//!
//! As RRDtool 1.7 writes it (version 0003, and the older 0001): data sources with
//! their state, archives with one row for each `pdp_per_row` steps, oldest first.
//! A row is labelled with its end; the last one ends at `lastupdate`, cut down
//! to a whole row. Values are rates or levels per second, NaN is unknown.

use std::io::BufRead;

use series::rrd::{Consolidation, SourceKind};
use series::{SECOND_US, Spec, Step};

use super::xml::{Token, Tokens, damaged};
use super::{Archive, Stretch, finest};
use crate::FileError;

/// Limit on the values of a file, known or not: they are kept in memory while it is read.
const VALUES_MAX: usize = 8_000_000;

/// Limit on the data sources of a file, and on those whose state an archive stores.
const SOURCES_MAX: usize = 4_096;

/// Limit on the archives of a file, including skipped ones.
const ARCHIVES_MAX: usize = 1_024;

/// Limit on a name, type or reading; rrdtool's own have at most 30 bytes.
const TEXT_MAX: usize = 1_024;

/// Maximum nesting depth of a dump's elements, plus one.
const DEPTH_MAX: usize = 8;

/// The content of a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Rrd {
    /// The step.
    pub step: Step,
    /// The last update, microseconds since the epoch.
    pub last_update_us: i64,
    /// The data sources.
    pub sources: Vec<RrdSource>,
    /// The archives, without those of aberrant behaviour detection (HWPREDICT …).
    pub archives: Vec<RrdArchive>,
    /// The names of the skipped consolidations.
    pub left_out: Vec<String>,
}

/// A data source.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdSource {
    /// Its name.
    pub name: String,
    /// How readings become rates; `None` for COMPUTE.
    pub kind: Option<SourceKind>,
    /// The longest known gap, in microseconds.
    pub heartbeat_us: i64,
    /// Minimum rate.
    pub min: Option<f64>,
    /// Maximum rate.
    pub max: Option<f64>,
    /// The last reading, as text.
    pub last: String,
    /// Content of the open slot: Σ(rate × s); NaN if nothing is known.
    pub open: f64,
    /// Unknown seconds of the open slot.
    pub unknown_s: i64,
}

/// An archive.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdArchive {
    /// How slots become rows.
    pub consolidation: Consolidation,
    /// Slots per row.
    pub steps: i64,
    /// Fraction of a row's slots that may be unknown.
    pub xff: f64,
    /// The open row of each source: accumulated value, and unknown slots so far.
    pub open: Vec<(f64, i64)>,
    /// The values of each row, source by source, oldest row first.
    pub values: Vec<f64>,
}

/// A field extracted from a dump.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractedField {
    /// The source.
    pub source: usize,
    /// The field: the source's name, with `_min`, `_max` or `_last` for other consolidations.
    pub field: String,
    /// What is known, in order of time.
    pub stretches: Vec<Stretch>,
}

impl Rrd {
    /// Reads a dump.
    ///
    /// # Errors
    /// [`FileError::NotADump`] with the reason; [`FileError::Io`].
    pub fn read(input: impl BufRead) -> Result<Rrd, FileError> {
        let mut reading = DumpParser::default();
        let mut tokens = Tokens::new(input);
        let mut path: Vec<String> = Vec::new();
        while let Some(token) = tokens.next()? {
            match token {
                Token::Open(name) => {
                    if path.len() == DEPTH_MAX {
                        return Err(damaged("its elements are nested too deeply"));
                    }
                    path.push(name);
                    reading.open(&names(&path))?;
                }
                Token::Text(text) => reading.text(&names(&path), &text)?,
                Token::Close => {
                    reading.close(&names(&path))?;
                    path.pop();
                }
            }
        }
        if !path.is_empty() || !reading.ended {
            return Err(damaged("it ends too early"));
        }
        reading.finish()
    }

    /// How to read a source's updates, for a series that continues where the file ends.
    pub fn spec(&self, source: &RrdSource, kind: series::Kind) -> Spec {
        let heartbeat_us = source.heartbeat_us;
        Spec { heartbeat_us, min: source.min, max: source.max, ..Spec::new(kind, self.step) }
    }

    /// The known rows of an archive for one source.
    pub fn rows(&self, archive: &RrdArchive, source: usize) -> Archive {
        let row_us = archive.steps.saturating_mul(self.step.us());
        let width = self.sources.len();
        let count = (archive.values.len() / width) as i64;
        let ends_us = self.last_update_us - self.last_update_us.rem_euclid(row_us);
        let begins_us = ends_us.saturating_sub(row_us.saturating_mul(count));
        let values = archive.values.iter().skip(source).step_by(width);
        let starts = (0..count).map(|i| begins_us.saturating_add(row_us.saturating_mul(i)));
        let rows = starts.zip(values.copied()).filter(|(_, value)| !value.is_nan()).collect();
        Archive { row_us, begins_us, rows }
    }

    /// Everything known, each instant once per field.
    ///
    /// The field named like the source is its mean: from archives of AVERAGE, and from archives
    /// whose rows are single slots, where all consolidations are equal. Other consolidations have
    /// separate fields.
    pub fn extract(&self) -> Vec<ExtractedField> {
        let mut fields = Vec::new();
        for (source, RrdSource { name, .. }) in self.sources.iter().enumerate() {
            for consolidation in Consolidation::ALL {
                let mean = consolidation == Consolidation::Average;
                let suffix = match consolidation {
                    Consolidation::Average => "",
                    Consolidation::Min => "_min",
                    Consolidation::Max => "_max",
                    Consolidation::Last => "_last",
                };
                let wanted = |archive: &&RrdArchive| {
                    if mean {
                        archive.consolidation == consolidation || archive.steps == 1
                    } else {
                        archive.consolidation == consolidation && archive.steps > 1
                    }
                };
                let archives = self.archives.iter().filter(wanted);
                let mut archives: Vec<_> = archives.collect();
                archives.sort_by_key(|archive| archive.steps);
                if !archives.is_empty() {
                    let field = format!("{name}{suffix}");
                    let rows = archives.into_iter().map(|archive| self.rows(archive, source));
                    fields.push(ExtractedField { source, field, stretches: finest(rows) });
                }
            }
        }
        fields
    }
}

fn names(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Parser state.
#[derive(Debug, Default)]
struct DumpParser {
    step: Option<Step>,
    last_update_us: Option<i64>,
    sources: Vec<RrdSource>,
    archives: Vec<RrdArchive>,
    left_out: Vec<String>,
    archive: OpenArchive,
    values: usize,
    ended: bool,
}

/// An archive being read.
#[derive(Debug, Default)]
struct OpenArchive {
    consolidation: Option<String>,
    steps: i64,
    xff: f64,
    open: Vec<(f64, i64)>,
    values: Vec<f64>,
    row: usize,
}

impl DumpParser {
    fn open(&mut self, path: &[&str]) -> Result<(), FileError> {
        let few = |count: usize, most: usize, what: &str| match count < most {
            true => Ok(()),
            false => Err(damaged(format!("it has more than {most} {what}"))),
        };
        match path {
            ["rrd", "ds"] => few(self.sources.len(), SOURCES_MAX, "data sources")?,
            ["rrd", "rra"] => {
                few(self.archives.len() + self.left_out.len(), ARCHIVES_MAX, "archives")?;
            }
            ["rrd", "rra", "cdp_prep", "ds"] => {
                few(self.archive.open.len(), SOURCES_MAX, "data sources")?;
            }
            _ => {}
        }
        match path {
            ["rrd", "ds"] => self.sources.push(RrdSource {
                name: String::new(),
                kind: None,
                heartbeat_us: 0,
                min: None,
                max: None,
                last: String::new(),
                open: f64::NAN,
                unknown_s: 0,
            }),
            ["rrd", "rra"] => self.archive = OpenArchive { xff: 0.5, ..OpenArchive::default() },
            ["rrd", "rra", "cdp_prep", "ds"] => self.archive.open.push((f64::NAN, 0)),
            ["rrd", "rra", "database", "row"] => self.archive.row = 0,
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, path: &[&str], text: &str) -> Result<(), FileError> {
        if text.len() > TEXT_MAX {
            return Err(damaged(format!("a text is longer than {TEXT_MAX} bytes")));
        }
        match path {
            ["rrd", "version"] if !matches!(text, "0001" | "0002" | "0003" | "0004" | "0005") => {
                return Err(damaged(format!("its version {text} is unknown")));
            }
            ["rrd", "step"] => self.step = Step::from_secs(integer(text)?),
            ["rrd", "lastupdate"] => {
                let us = crate::time::decimal_seconds(text);
                self.last_update_us = Some(us.ok_or_else(|| not_a_number(text))?);
            }
            ["rrd", "ds", element] => self.source_text(element, text)?,
            ["rrd", "rra", "cf"] => self.archive.consolidation = Some(text.to_owned()),
            ["rrd", "rra", "pdp_per_row"] => self.archive.steps = integer(text)?,
            ["rrd", "rra", "params", "xff"] | ["rrd", "rra", "xff"] => {
                self.archive.xff = number(text)?;
            }
            ["rrd", "rra", "cdp_prep", "ds", "value"] => {
                if let Some(open) = self.archive.open.last_mut() {
                    open.0 = number(text)?;
                }
            }
            ["rrd", "rra", "cdp_prep", "ds", "unknown_datapoints"] => {
                if let Some(open) = self.archive.open.last_mut() {
                    open.1 = integer(text)?;
                }
            }
            ["rrd", "rra", "database", "row", "v"] => self.value(number(text)?)?,
            _ => {}
        }
        Ok(())
    }

    fn source_text(&mut self, element: &str, text: &str) -> Result<(), FileError> {
        let Some(source) = self.sources.last_mut() else { return Ok(()) };
        let bound = |value: f64| Some(value).filter(|value| value.is_finite());
        match element {
            "name" => source.name = text.to_owned(),
            "type" => {
                source.kind = SourceKind::ALL.into_iter().find(|kind| kind.name() == text);
                if source.kind.is_none() && text != "COMPUTE" {
                    return Err(damaged(format!("its data source type {text} is unknown")));
                }
            }
            "minimal_heartbeat" => {
                let us = integer(text)?.checked_mul(SECOND_US);
                source.heartbeat_us = us.ok_or_else(|| not_a_number(text))?;
            }
            "min" => source.min = bound(number(text)?),
            "max" => source.max = bound(number(text)?),
            "last_ds" => source.last = text.to_owned(),
            "value" => source.open = number(text)?,
            "unknown_sec" => source.unknown_s = integer(text)?,
            _ => {}
        }
        Ok(())
    }

    fn value(&mut self, value: f64) -> Result<(), FileError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(damaged("it has more than 8000000 values"));
        }
        self.archive.row += 1;
        self.archive.values.push(value);
        Ok(())
    }

    fn close(&mut self, path: &[&str]) -> Result<(), FileError> {
        match path {
            ["rrd"] => self.ended = true,
            ["rrd", "rra", "database", "row"] if self.archive.row != self.sources.len() => {
                return Err(damaged("a row does not have one value per data source"));
            }
            ["rrd", "rra"] => self.close_archive()?,
            _ => {}
        }
        Ok(())
    }

    fn close_archive(&mut self) -> Result<(), FileError> {
        let OpenArchive { consolidation, steps, xff, open, values, .. } =
            std::mem::take(&mut self.archive);
        let name = consolidation.ok_or_else(|| damaged("an archive has no consolidation"))?;
        if steps < 1 {
            return Err(damaged("an archive has no pdp_per_row"));
        }
        match Consolidation::ALL.into_iter().find(|known| known.name() == name) {
            Some(consolidation) => {
                self.archives.push(RrdArchive { consolidation, steps, xff, open, values });
            }
            None => self.left_out.push(name),
        }
        Ok(())
    }

    fn finish(self) -> Result<Rrd, FileError> {
        let step = self.step.ok_or_else(|| damaged("it has no step"))?;
        let last_update_us = self.last_update_us.ok_or_else(|| damaged("it has no last update"))?;
        if last_update_us < 0 {
            return Err(damaged("its last update is before 1970"));
        }
        if self.sources.is_empty() {
            return Err(damaged("it has no data source"));
        }
        if self.sources.iter().any(|source| source.name.is_empty()) {
            return Err(damaged("a data source has no name"));
        }
        let too_long = |archive: &RrdArchive| {
            let us = archive.steps.checked_mul(step.us());
            us.and_then(|us| us.checked_mul(archive.values.len() as i64)).is_none()
        };
        if self.archives.iter().any(too_long) {
            return Err(damaged("an archive spans more time than there is"));
        }
        let DumpParser { sources, archives, left_out, .. } = self;
        Ok(Rrd { step, last_update_us, sources, archives, left_out })
    }
}

fn integer(text: &str) -> Result<i64, FileError> {
    text.parse().map_err(|_| not_a_number(text))
}

fn number(text: &str) -> Result<f64, FileError> {
    match text {
        "U" | "NaN" | "-nan" | "nan" => Ok(f64::NAN),
        text => text.parse().map_err(|_| not_a_number(text)),
    }
}

fn not_a_number(text: &str) -> FileError {
    let start: String = text.chars().take(40).collect();
    damaged(format!("'{start}' is not a number"))
}

#[cfg(test)]
#[path = "rrd_tests.rs"]
mod tests;
