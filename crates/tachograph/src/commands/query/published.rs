//! Slots of a published table, read through HiveServer2.

use std::collections::{BTreeMap, HashMap};

use hive::{Address, Session, Value, sql};
use series::{Accumulator, Integral, Kind, SlotKey, Spec, Step};
use store::{Identity, Selector, Series};

use super::slots_of::SlotSource;
use crate::commands::door;
use crate::failure::Failure;
use crate::flags::hive::DoorFlags;
use crate::flags::series::parse_length;

/// Fraction of a slot that may be unknown while its rate is shown; the table does not have that of
/// a series, so it is the usual one.
const XFF: f64 = 0.5;

/// Stands between tags in a result: no map is sent in a form that Hive and Spark share.
const BETWEEN: &str = "\u{1f}";

/// The columns that name a series, as they are selected and grouped.
const NAMES: [&str; 3] = ["`measurement`", "`field`", "`flow`"];

/// A series as the server names it: measurement, field, keys and values of the tags.
type Names = [String; 4];

/// A table, with what was read from it so far.
pub(super) struct PublishedTable {
    session: Session,
    /// Database and name, quoted.
    table: String,
    /// Every step with its name in the table, the shortest first.
    steps: Vec<(Step, String)>,
    days: [Option<i64>; 2],
    /// The condition of the series that are asked for.
    condition: String,
    selectors: Vec<Selector>,
    numbers: HashMap<Names, i64>,
    slots: HashMap<i64, Vec<(SlotKey, Accumulator)>>,
}

impl PublishedTable {
    /// Opens a table; only slots from `from_us` until `until_us`, if given, will be asked for.
    pub(super) fn open(
        url: &Address,
        flags: &DoorFlags,
        selectors: &[Selector],
        days: [Option<i64>; 2],
    ) -> Result<PublishedTable, Failure> {
        let mut session = door::open(url, flags)?;
        let table = format!("{}.{}", sql::name(&url.database), sql::name(&flags.table));
        let steps = steps(&session.execute(&format!("SHOW PARTITIONS {table}"))?);
        if steps.is_empty() {
            return Err(Failure::new(format!(
                "the table {}.{} has no partitions; 'tachograph publish' adds them",
                url.database, flags.table
            )));
        }
        let condition = condition(selectors);
        let (numbers, slots) = (HashMap::new(), HashMap::new());
        let selectors = selectors.to_vec();
        Ok(PublishedTable { session, table, steps, days, condition, selectors, numbers, slots })
    }

    /// The series of the table that match a selector.
    pub(super) fn find(&mut self) -> Result<Vec<Series>, Failure> {
        let names = names();
        let statement =
            format!("SELECT {names} FROM {}{} GROUP BY {names}", self.table, self.filter(None));
        let mut found = Vec::new();
        for row in self.session.execute(&statement)? {
            let (names, flow) = named(&row).ok_or_else(|| unexpected(&row))?;
            let identity = identity(&names).ok_or_else(|| unexpected(&row))?;
            let kind = if flow { Kind::Count } else { Kind::Level };
            let step = self.steps[0].0;
            let id = i64::try_from(found.len()).map_err(Failure::new)?;
            self.numbers.insert(names, id);
            found.push(Series { id, identity, spec: Spec::new(kind, step), xff: XFF, rrd: None });
        }
        // In the order of the selectors, as the record has them.
        found.sort_by_cached_key(|series: &Series| {
            let place = self.selectors.iter().position(|s| s.matches(&series.identity));
            (place, series.identity.clone())
        });
        Ok(found)
    }

    /// Closes the session.
    pub(super) fn close(self) -> Result<(), Failure> {
        Ok(self.session.close()?)
    }

    fn filter(&self, step: Option<&str>) -> String {
        let mut all = vec![self.condition.clone()];
        all.extend(step.map(|step| format!("`step` = {}", sql::text(step))));
        for (at_us, sign) in self.days.iter().zip([">=", "<="]) {
            let day = at_us.and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
            all.extend(day.map(|at| {
                let day = at.to_zoned(jiff::tz::TimeZone::UTC).date();
                format!("`day` {sign} {}", sql::text(&day.to_string()))
            }));
        }
        format!(" WHERE {}", all.join(" AND "))
    }

    /// Reads the slots of a step, all lanes and recorders added.
    fn read(&mut self, step: Step) -> Result<Vec<(SlotKey, Accumulator)>, Failure> {
        let Some((_, name)) = self.steps.iter().find(|(known, _)| *known == step) else {
            return Ok(Vec::new());
        };
        let (names, slot) = (names(), "CAST(`slot` AS DOUBLE)");
        let statement = format!(
            "SELECT {names}, {slot}, sum(`total`), sum(`covered_us`), sum(`n`), min(`min`), \
             max(`max`) FROM {}{} GROUP BY {names}, {slot}",
            self.table,
            self.filter(Some(name))
        );
        let mut slots = Vec::new();
        for row in self.session.execute(&statement)? {
            let slot = self.slot(&row).ok_or_else(|| unexpected(&row))?;
            slots.push(slot);
        }
        slots.sort_by_key(|(key, _): &(SlotKey, Accumulator)| (key.slot_us, key.series));
        Ok(slots)
    }

    fn slot(&self, row: &[Value]) -> Option<(SlotKey, Accumulator)> {
        let (names, flow) = named(row)?;
        let series = *self.numbers.get(&names)?;
        let [slot, total, covered, n, min, max] = row.get(5..)? else { return None };
        let total = total.as_f64()?;
        let integral = match total {
            total if flow && total.fract() == 0.0 && total.abs() < 2f64.powi(53) => {
                Integral::Count(total as i64)
            }
            total => Integral::Area(total),
        };
        let sums = Accumulator {
            integral,
            covered_us: covered.as_i64()?,
            n: n.as_i64()?,
            vmin: min.as_f64().unwrap_or(f64::INFINITY),
            vmax: max.as_f64().unwrap_or(f64::NEG_INFINITY),
            ..Accumulator::EMPTY
        };
        let slot_us = (slot.as_f64()? * 1e6).round() as i64;
        Some((SlotKey { slot_us, series, lane: 0 }, sums))
    }
}

impl SlotSource for PublishedTable {
    fn steps(&mut self) -> Result<Vec<Step>, Failure> {
        Ok(self.steps.iter().map(|(step, _)| *step).collect())
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, Failure> {
        if !self.slots.contains_key(&step.us()) {
            let slots = self.read(step)?;
            self.slots.insert(step.us(), slots);
        }
        let all = self.slots.get(&step.us()).into_iter().flatten();
        let wanted = all.filter(|(key, _)| {
            (from_us..until_us).contains(&key.slot_us) && series.contains(&key.series)
        });
        Ok(wanted.cloned().collect())
    }

    /// The end of the last slot, of the shortest step that reaches as far as `step` does.
    fn end_us(
        &mut self,
        step: Step,
        series: &[i64],
        rows: &[(SlotKey, Accumulator)],
    ) -> Result<Option<i64>, Failure> {
        let Some(last_us) = rows.iter().map(|(key, _)| key.slot_us).max() else {
            return Ok(None);
        };
        for fine in self.steps()? {
            let slots = SlotSource::slots(self, fine, series, last_us, i64::MAX)?;
            if let Some((key, _)) = slots.last() {
                return Ok(Some(key.slot_us.saturating_add(fine.us())));
            }
        }
        Ok(Some(last_us.saturating_add(step.us())))
    }
}

/// The columns of a series' names, and its tags as two texts.
fn names() -> String {
    let tags = ["map_keys", "map_values"]
        .map(|function| format!("concat_ws({}, {function}(`tags`))", sql::text(BETWEEN)));
    [&NAMES.map(str::to_owned)[..], &tags[..]].concat().join(", ")
}

/// The names in the first columns of a row, and whether the series is a flow.
fn named(row: &[Value]) -> Option<(Names, bool)> {
    let [measurement, field, flow, keys, values] = row.get(..5)? else { return None };
    let text = |value: &Value| value.as_text().map(str::to_owned);
    Some(([text(measurement)?, text(field)?, text(keys)?, text(values)?], flow.as_bool()?))
}

fn identity([measurement, field, keys, values]: &Names) -> Option<Identity> {
    let split = |text: &str| -> Vec<String> {
        let parts = text.split(BETWEEN).filter(|_| !text.is_empty());
        parts.map(str::to_owned).collect()
    };
    let (keys, values) = (split(keys), split(values));
    let tags: BTreeMap<String, String> = keys.iter().cloned().zip(values.iter().cloned()).collect();
    let is_whole = keys.len() == values.len() && tags.len() == keys.len();
    is_whole.then(|| Identity { measurement: measurement.clone(), field: field.clone(), tags })
}

fn unexpected(row: &[Value]) -> Failure {
    Failure::new(format!("the server sent a row that cannot be read: {row:?}"))
}

/// The steps in `SHOW PARTITIONS`.
fn steps(rows: &[Vec<Value>]) -> Vec<(Step, String)> {
    let mut steps = BTreeMap::new();
    for row in rows {
        let name = row
            .first()
            .and_then(Value::as_text)
            .and_then(|path| path.split('/').find_map(|part| part.strip_prefix("step=")));
        let step = name.and_then(|name| {
            let us = i64::try_from(parse_length(name).ok()?.0 / 1_000).ok()?;
            Some((us, (Step::from_micros(us)?, name.to_owned())))
        });
        steps.extend(step);
    }
    steps.into_values().collect()
}

/// The condition for series that match any of the selectors.
fn condition(selectors: &[Selector]) -> String {
    let each = selectors.iter().map(|selector| {
        let mut all = Vec::new();
        let parts = [("`measurement`", &selector.measurement), ("`field`", &selector.field)];
        for (column, value) in parts {
            all.extend(value.as_ref().map(|value| format!("{column} = {}", sql::text(value))));
        }
        for (key, value) in &selector.tags {
            all.push(format!("`tags`[{}] = {}", sql::text(key), sql::text(value)));
        }
        if all.is_empty() { "true".to_owned() } else { all.join(" AND ") }
    });
    format!("({})", each.collect::<Vec<_>>().join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::series::parse_selector;

    #[test]
    fn selectors_become_conditions() {
        let condition = |texts: &[&str]| {
            let selectors: Vec<_> =
                texts.iter().map(|text| parse_selector(text).unwrap()).collect();
            condition(&selectors)
        };
        assert_eq!(condition(&[""]), "(true)");
        assert_eq!(
            condition(&["a:b{k=it's}", "c"]),
            r"(`measurement` = 'a' AND `field` = 'b' AND `tags`['k'] = 'it\'s' OR `measurement` = 'c')"
        );
    }

    #[test]
    fn steps_are_those_of_the_partitions() {
        let row = |text: &str| vec![Value::Text(text.to_owned())];
        let rows = ["step=1m/day=a", "step=10s/day=a", "step=10s/day=b", "step=x/day=a"].map(row);
        let found: Vec<String> = steps(&rows).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["10s", "1m"]);
    }

    #[test]
    fn tags_are_split_as_they_were_joined() {
        let names = |keys: &str, values: &str| {
            identity(&["m", "f", keys, values].map(str::to_owned)).map(|i| i.to_string())
        };
        assert_eq!(names("", "").as_deref(), Some("m:f"));
        assert_eq!(names("a\u{1f}b", "1\u{1f}2").as_deref(), Some("m:f{a=1,b=2}"));
        assert_eq!(names("a\u{1f}b", "1"), None);
    }
}
