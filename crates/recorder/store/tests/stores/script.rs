//! The language of the scripts, similar to Prometheus's promqltest.
//!
//! A command starts at the beginning of a line; indented lines belong to it. Times are written
//! `5s`, `1m`, `3d`; `#` starts a comment.
//!
//! ```text
//! retain STEP AGE|forever
//! series NAME{TAGS} KIND STEP [xff= heartbeat= lateness= min= max= limit=] -> made | REASON
//! batch WRITER NUMBER -> now | now, N expired | before | ERROR
//!   interval NAME START END VALUE [lane=] [at=STEP]
//!   retract  NAME START END VALUE [lane=] [at=STEP]
//!   point    NAME TIME VALUE [lane=]
//! slots STEP NAME [from= until=]
//!   SLOT LANE INTEGRAL COVERED MIN MAX N LAST-TIME LAST-VALUE [~]
//! view VIEW STEP NAME
//!   SLOT RATE TOTAL MIN MAX N KNOWN
//! find SELECTOR
//!   NAME
//! seal TIME
//! maintain TIME -> N dropped, M made
//! reopen
//! ```

use std::collections::{BTreeMap, HashMap};

use series::{Delta, Interval, Kind, Point, SlotKey, Spec};
use store::{
    BatchResult, Changes, Identity, LaneChange, NewSeries, Retention, Selector, Series,
    SeriesLimit, Writer,
};

use crate::place::Place;
use crate::values::{number, option, seconds, shown, step, time_us};

type Lines<'a> = [(usize, &'a str)];

struct Run {
    place: Place,
    series: HashMap<String, Series>,
}

/// Runs a script; the error begins with the number of its line.
pub(crate) fn run(text: &str, place: Place) -> Result<(), String> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or("").trim_end()))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let mut run = Run { place, series: HashMap::new() };
    let mut rest: &Lines = &lines;
    let mut commands = 0;
    while let Some(((line, command), after)) = rest.split_first() {
        let inner = after.iter().take_while(|(_, l)| l.starts_with(' ')).count();
        run.command(command, &after[..inner]).map_err(|e| format!("{line}: {command}\n{e}"))?;
        rest = &after[inner..];
        commands += 1;
    }
    if commands == 0 { Err("1: the script is empty".to_owned()) } else { Ok(()) }
}

impl Run {
    fn command(&mut self, command: &str, inner: &Lines) -> Result<(), String> {
        let (command, wanted) = match command.split_once("->") {
            Some((command, wanted)) => (command, Some(wanted.trim())),
            None => (command, None),
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let answer = match words[..] {
            ["retain", step_word, age] => self.retain(step_word, age)?,
            ["series", name, kind, step_word, ..] => self.make(name, kind, step_word, &words)?,
            ["batch", writer, seq] => self.batch(writer, seq, inner)?,
            ["slots", step_word, name, ..] => {
                let rows = self.slots(step_word, name, &words)?;
                crate::scan::check(self.place.store(), step(step_word)?);
                return same(&rows, inner);
            }
            ["view", view, step_word, name] => {
                let rows = self.view(view, step_word, name)?;
                return same(&rows, inner);
            }
            ["find", name] => return same(&self.find(name)?, inner),
            ["maintain", now] => {
                let done = self.place.store().maintain(time_us(now)?).map_err(|e| e.to_string())?;
                format!("{} dropped, {} made", done.dropped, done.made)
            }
            ["seal", until] => {
                self.place.store().seal(time_us(until)?).map_err(|e| e.to_string())?;
                "sealed".to_owned()
            }
            ["reopen"] => {
                self.place.reopen();
                "reopened".to_owned()
            }
            _ => return Err("is not a command".to_owned()),
        };
        match wanted {
            Some(wanted) if wanted != answer => Err(format!("gave '{answer}', not '{wanted}'")),
            None if answer.contains(':') => Err(format!("failed: {answer}")),
            _ => Ok(()),
        }
    }

    fn retain(&mut self, step_word: &str, age: &str) -> Result<String, String> {
        let age_us = if age == "forever" { None } else { Some(time_us(age)?) };
        let retention = Retention { step: step(step_word)?, age_us };
        self.place.store().retain(&[retention]).map_err(|e| e.to_string())?;
        Ok("retained".to_owned())
    }

    fn make(
        &mut self,
        name: &str,
        kind: &str,
        step_word: &str,
        words: &[&str],
    ) -> Result<String, String> {
        let kind: Kind = serde_json::from_value(kind.into()).map_err(|e| e.to_string())?;
        let mut spec = Spec::new(kind, step(step_word)?);
        for (key, value) in
            [("heartbeat", &mut spec.heartbeat_us), ("lateness", &mut spec.lateness_us)]
        {
            *value = option(words, key).map(time_us).transpose()?.unwrap_or(*value);
        }
        spec.min = option(words, "min").map(number).transpose()?;
        spec.max = option(words, "max").map(number).transpose()?;
        let mut wanted = NewSeries::new(identity(name)?, spec);
        wanted.xff = option(words, "xff").map(number).transpose()?.unwrap_or(wanted.xff);
        let most = option(words, "limit").map(number).transpose()?.map(|most| most as i64);
        let limit = SeriesLimit { series: most.unwrap_or(1_000), ..SeriesLimit::DEFAULT };
        let answers = self
            .place
            .store()
            .series(&[wanted.clone(), wanted], &limit)
            .map_err(|e| e.to_string())?;
        if answers[0] != answers[1] {
            return Err(format!("the same series was answered twice: {answers:?}"));
        }
        match &answers[0] {
            Ok(series) => {
                self.series.insert(name.to_owned(), series.clone());
                Ok("made".to_owned())
            }
            Err(reason) => Ok(reason.name().to_owned()),
        }
    }

    fn known(&self, name: &str) -> Result<Series, String> {
        self.series.get(name).cloned().ok_or_else(|| format!("there is no series {name}"))
    }

    fn batch(&mut self, writer: &str, seq: &str, inner: &Lines) -> Result<String, String> {
        let mut changes = Changes::default();
        for (line, update) in inner {
            let words: Vec<&str> = update.split_whitespace().collect();
            self.update(&words, &mut changes).map_err(|e| format!("line {line}: {e}"))?;
        }
        let writer = Writer(writer.bytes().fold(0, |sum, byte| sum << 8 | u128::from(byte)));
        let seq = seq.parse().map_err(|_| format!("'{seq}' is not a number"))?;
        let applied = self.place.store().apply(writer, seq, &changes);
        self.place.seal();
        Ok(match applied {
            Ok(BatchResult::Now { expired: 0 }) => "now".to_owned(),
            Ok(BatchResult::Now { expired }) => format!("now, {expired} expired"),
            Ok(BatchResult::Before) => "before".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    fn update(&mut self, words: &[&str], changes: &mut Changes) -> Result<(), String> {
        let (verb, name) = (words[0], *words.get(1).ok_or("names no series")?);
        let series = self.known(name)?;
        let lane_name = option(words, "lane").unwrap_or("");
        let lane = self.place.store().lanes(&[lane_name]).map_err(|e| e.to_string())?[0];
        let at = option(words, "at").map(step).transpose()?.unwrap_or(series.spec.step);
        let key = |slot_us| SlotKey { slot_us, series: series.id, lane };
        match (verb, words) {
            ("interval" | "retract", [_, _, start, end, value, ..]) => {
                let (start_us, end_us) = (time_us(start)?, time_us(end)?);
                let interval = Interval::of(&series.spec, start_us, end_us, number(value)?);
                let mut interval = interval.map_err(|e| e.to_string())?;
                if verb == "retract" {
                    interval = interval.inverse();
                }
                for (slot_us, part) in interval.slots(at) {
                    changes.add(at, key(slot_us), Delta::widen(part));
                }
            }
            ("point", [_, _, time, value, ..]) => {
                let reading =
                    series.spec.kind.reading(number(value)?).map_err(|e| e.to_string())?;
                let point = Point { at_us: time_us(time)?, reading };
                let mut change = match changes.lanes.remove(&(series.id, lane)) {
                    Some(change) => change,
                    None => {
                        let states = self.place.store().lane_states(&[(series.id, lane)]);
                        LaneChange::of(states.map_err(|e| e.to_string())?.remove(0))
                    }
                };
                let pushed = change.after.push(&series.spec, point, |slot_us, delta| {
                    changes.add(at, key(slot_us), delta);
                });
                pushed.map_err(|e| e.to_string())?;
                changes.lanes.insert((series.id, lane), change);
            }
            _ => return Err("is not an update".to_owned()),
        }
        Ok(())
    }

    fn slots(
        &mut self,
        step_word: &str,
        name: &str,
        words: &[&str],
    ) -> Result<Vec<String>, String> {
        let series = self.known(name)?;
        let from_us = option(words, "from").map(time_us).transpose()?.unwrap_or(i64::MIN);
        let until_us = option(words, "until").map(time_us).transpose()?.unwrap_or(i64::MAX);
        let rows = self.place.store().slots(step(step_word)?, &[series.id], from_us, until_us);
        let line = |(key, row): &(SlotKey, series::Accumulator)| {
            let last =
                row.last().map_or("- -".to_owned(), |(us, v)| format!("{} {v}", seconds(us)));
            format!(
                "{} {} {} {} {} {} {} {last}{}",
                seconds(key.slot_us),
                key.lane,
                row.integral.as_f64(),
                seconds(row.covered_us),
                shown(row.min()),
                shown(row.max()),
                row.n,
                if row.approximate { " ~" } else { "" }
            )
        };
        Ok(rows.map_err(|e| e.to_string())?.iter().map(line).collect())
    }

    fn view(&mut self, view: &str, step_word: &str, name: &str) -> Result<Vec<String>, String> {
        let series = self.known(name)?;
        let rows = self.place.shown(step(step_word)?, view, &series);
        let line = |row: &crate::place::Shown| {
            format!(
                "{} {} {} {} {} {} {}",
                seconds(row.slot_us),
                shown(row.rate),
                shown(row.total),
                shown(row.min),
                shown(row.max),
                row.n.map_or("-".to_owned(), |n| n.to_string()),
                row.known
            )
        };
        Ok(rows.iter().map(line).collect())
    }

    fn find(&mut self, name: &str) -> Result<Vec<String>, String> {
        let Identity { measurement, tags, .. } = identity(name)?;
        let measurement = Some(measurement).filter(|m| m != "*");
        let selector = Selector { measurement, field: None, tags };
        let found = self.place.store().find(&selector).map_err(|e| e.to_string())?;
        Ok(found.iter().map(|series| series.identity.to_string()).collect())
    }
}

/// `requests{host=a,zone=b}` or `requests:errors{…}`.
fn identity(name: &str) -> Result<Identity, String> {
    let (name, tags) = match name.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').ok_or("a brace is missing")?),
        None => (name, ""),
    };
    let (measurement, field) = name.split_once(':').unwrap_or((name, "value"));
    let pair = |tag: &str| {
        let (key, value) = tag.split_once('=').ok_or(format!("'{tag}' is not a tag"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let tags: Result<BTreeMap<String, String>, String> =
        tags.split(',').filter(|tag| !tag.is_empty()).map(pair).collect();
    Ok(Identity { measurement: measurement.to_owned(), field: field.to_owned(), tags: tags? })
}

/// Compares rows word by word; `≈` before an expected number allows 1 part in 10^12.
fn same(rows: &[String], wanted: &Lines) -> Result<(), String> {
    let wanted: Vec<Vec<&str>> =
        wanted.iter().map(|(_, line)| line.split_whitespace().collect()).collect();
    let agree = rows.len() == wanted.len()
        && rows.iter().zip(&wanted).all(|(row, wanted)| {
            let words: Vec<&str> = row.split_whitespace().collect();
            words.len() == wanted.len() && words.iter().zip(wanted).all(|(a, b)| equal(a, b))
        });
    if agree {
        return Ok(());
    }
    Err(format!("gave\n  {}", rows.join("\n  ")))
}

fn equal(word: &str, wanted: &str) -> bool {
    match wanted.strip_prefix('≈').map(|wanted| (wanted.parse::<f64>(), word.parse::<f64>())) {
        Some((Ok(wanted), Ok(found))) => (found - wanted).abs() <= 1e-12 * wanted.abs(),
        _ => word == wanted,
    }
}
