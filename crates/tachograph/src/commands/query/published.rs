//! Slots of a published table, read through HiveServer2.

use std::collections::{BTreeMap, HashMap};

use hive::{Address, Session, Value, sql};
use series::{Accumulator, Integral, Kind, SlotKey, Spec, Step};
use store::{Identity, Selector, Series};

use super::dialect::{BETWEEN, Dialect};
use super::slots_of::SlotSource;
use crate::commands::door;
use crate::failure::Failure;
use crate::flags::hive::DoorFlags;
use crate::flags::series::parse_length;

/// Fraction of a slot that may be unknown while its rate is shown; the table does not have that of
/// a series, so it is the usual one.
const XFF: f64 = 0.5;

/// A series as the server names it: measurement, field, keys and values of the tags.
type Names = [String; 4];

/// A table of published files.
pub(super) struct PublishedTable {
    session: Session,
    dialect: Dialect,
    /// Database and name, quoted.
    table: String,
    /// Every step with its name in the table, the shortest first.
    steps: Vec<(Step, String)>,
    selectors: Vec<Selector>,
    /// The condition of the series that are asked for.
    condition: String,
    numbers: HashMap<Names, i64>,
    /// The starts of the first and of the last slot, by step in microseconds.
    extents: BTreeMap<i64, [i64; 2]>,
}

impl PublishedTable {
    /// Opens a table.
    pub(super) fn open(
        url: &Address,
        flags: &DoorFlags,
        selectors: &[Selector],
    ) -> Result<PublishedTable, Failure> {
        let mut session = door::open(url, flags)?;
        let dialect = Dialect::of(&session.product()?);
        let table = format!("{}.{}", sql::name(&url.database), sql::name(&flags.table));
        let steps = steps(&session.execute(&format!("SHOW PARTITIONS {table}"))?);
        if steps.is_empty() {
            return Err(Failure::new(format!(
                "the table {}.{} has no partitions; 'tachograph publish' adds them",
                url.database, flags.table
            )));
        }
        Ok(PublishedTable {
            session,
            dialect,
            table,
            steps,
            selectors: selectors.to_vec(),
            condition: condition(selectors),
            numbers: HashMap::new(),
            extents: BTreeMap::new(),
        })
    }

    /// The series that match a selector and have slots on the days of a range in microseconds since
    /// the epoch; what the range leaves open is not limited. One statement finds them, and where the
    /// slots of each step begin and end.
    pub(super) fn find(&mut self, range_us: [Option<i64>; 2]) -> Result<Vec<Series>, Failure> {
        let (names, slot) = (self.dialect.names(), self.dialect.slot());
        let longest = self.steps[self.steps.len() - 1].0;
        // The longest slot with `from` in it may begin days before it.
        let range_us = [range_us[0].map(|us| longest.slot_of(us)), range_us[1]];
        let statement = format!(
            "SELECT {names}, `step`, min({slot}), max({slot}) FROM {} WHERE {}{} GROUP BY {names}, \
             `step`",
            self.table,
            self.condition,
            days(range_us)
        );
        let mut found = Vec::new();
        for row in self.session.execute(&statement)? {
            let (names, flow) = named(&row).ok_or_else(|| unexpected(&row))?;
            self.extend(&row[5..]).ok_or_else(|| unexpected(&row))?;
            if self.numbers.contains_key(&names) {
                continue;
            }
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

    /// Takes the step and its first and last slot.
    fn extend(&mut self, row: &[Value]) -> Option<()> {
        let [step, first, last] = row else { return None };
        let name = step.as_text()?;
        let step = self.steps.iter().find(|(_, known)| known == name)?.0;
        let (first, last) = (self.dialect.read(first)?, self.dialect.read(last)?);
        let known = self.extents.entry(step.us()).or_insert([first, last]);
        *known = [known[0].min(first), known[1].max(last)];
        Some(())
    }

    /// Closes the session.
    pub(super) fn close(self) -> Result<(), Failure> {
        Ok(self.session.close()?)
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
        let slot_us = self.dialect.read(slot)?;
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
        let Some((_, name)) = self.steps.iter().find(|(known, _)| *known == step) else {
            return Ok(Vec::new());
        };
        let (names, slot) = (self.dialect.names(), self.dialect.slot());
        let bounds = [(">=", from_us), ("<", until_us)].into_iter().filter_map(|(sign, us)| {
            Some(format!(" AND {slot} {sign} {}", self.dialect.literal(us)?))
        });
        let statement = format!(
            "SELECT {names}, {slot}, sum(`total`), sum(`covered_us`), sum(`n`), min(`min`), \
             max(`max`) FROM {} WHERE {} AND `step` = {}{}{} GROUP BY {names}, {slot} LIMIT {}",
            self.table,
            self.condition,
            sql::text(name),
            days([Some(from_us), Some(until_us)]),
            bounds.collect::<String>(),
            hive::ROWS_MAX + 1
        );
        let mut slots = Vec::new();
        for row in self.session.execute(&statement)? {
            let (key, sums) = self.slot(&row).ok_or_else(|| unexpected(&row))?;
            if series.contains(&key.series) {
                slots.push((key, sums));
            }
        }
        slots.sort_by_key(|(key, _): &(SlotKey, Accumulator)| (key.slot_us, key.series));
        Ok(slots)
    }

    /// From what [`PublishedTable::find`] has found: of all series that are asked for, and exact to a
    /// gap in the data.
    fn first_us(
        &mut self,
        step: Step,
        _: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Option<i64>, Failure> {
        let extent = self.extents.get(&step.us());
        let inside = extent.filter(|[first, last]| *last >= from_us && *first < until_us);
        Ok(inside.map(|[first, _]| step.slot_of(from_us).max(*first)))
    }

    /// The end is that of the last slot of the shortest step that reaches as far.
    fn extent_us(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Option<[i64; 2]>, Failure> {
        let Some(first) = self.first_us(step, series, from_us, until_us)? else { return Ok(None) };
        let last = self.extents.get(&step.us()).map_or(first, |[_, last]| *last);
        let reaching = self.extents.iter().find(|(_, [_, fine])| *fine >= last);
        let end = reaching.map_or(last, |(step_us, [_, fine])| fine.saturating_add(*step_us));
        Ok(Some([first, end]))
    }
}

/// The condition of the days of a range in microseconds since the epoch.
fn days(range_us: [Option<i64>; 2]) -> String {
    let bounds = range_us.iter().zip([">=", "<="]).filter_map(|(us, sign)| {
        let at = jiff::Timestamp::from_microsecond((*us)?).ok()?;
        let day = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        Some(format!(" AND `day` {sign} {}", sql::text(&day.to_string())))
    });
    bounds.collect()
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
