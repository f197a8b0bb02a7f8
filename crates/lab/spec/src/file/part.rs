//! `[[part]]`: which variants are compared, how and for how long.

use std::ops::Range;

use base::{parse_fraction, parse_rate};

use super::axes::combinations;
use super::choice::{check_all_taken, chosen};
use super::load::LOAD_KEYS;
use super::reader::{Scope, Table, Value, Vars, plain};
use super::variant::{Cell, cells, variant};
use super::{File, capacity, check_name, is_table, tables, vars};
use crate::compare::default_offers;
use crate::error::{SpecError, suggestion};
use crate::far;
use crate::load::Arrivals;
use crate::plan::{
    Change, Contrast, Layout, Margin, Metric, Offer, Part, PublishedFigure, Schedule, Variant,
};

pub(super) const PART_KEYS: [&str; 19] = [
    "name",
    "question",
    "variants",
    "variant",
    "vars",
    "each",
    "load",
    "schedule",
    "offers",
    "baseline",
    "contrasts",
    "primary",
    "layout",
    "on",
    "address",
    "from",
    "published",
    "changes",
    "capacity",
];

pub(super) const SCHEDULE_KEYS: [&str; 12] = [
    "precision",
    "confidence",
    "pilot_blocks",
    "max_blocks",
    "max_time",
    "slice",
    "window",
    "warmup",
    "isolated",
    "independent_starts",
    "margin",
    "why",
];

/// Keys of `[[published]]`; the last one is only for figures of the whole experiment.
pub(super) const PUBLISHED_KEYS: [&str; 5] = ["variant", "figure", "throughput", "source", "part"];

/// Reads the parts; a file without `[[part]]` is one part of all its variants.
pub(super) fn parts(file: &File<'_>, name: &str) -> Result<Vec<Part>, SpecError> {
    if file.parts.is_empty() {
        return Ok(vec![PartReader { file, part: None, vars: Vars::new() }.read(name.to_owned())?]);
    }
    check_all_taken(file)?;
    let mut parts: Vec<Part> = Vec::new();
    let mut tables_of: Vec<&Table<'_>> = Vec::new();
    for table in &file.parts {
        let own = vars(table, &file.declared)?;
        for combination in combinations(file, table, own, "parts")? {
            let reader = PartReader { file, part: Some(table), vars: combination.vars };
            let name = reader.name()?;
            if parts.iter().any(|part| part.name == name) {
                let help = "the name must contain every variable of each";
                return Err(at(table, "name", format!("two parts are named '{name}'")).help(help));
            }
            parts.push(reader.read(name)?);
            tables_of.push(table);
        }
    }
    for (part, table) in parts.iter().zip(tables_of) {
        check_changes(part, table, &parts)?;
    }
    for table in &file.published {
        if let Some(given) = table.plain("part")?
            && !parts.iter().any(|part| part.name == given)
        {
            let names = parts.iter().map(|part| part.name.as_str());
            let error = at(table, "part", format!("there is no part '{given}'"));
            return Err(error.help(suggestion(&given, names)));
        }
    }
    Ok(parts)
}

/// The other part of a change must exist and compare at least one pair of variants as well.
fn check_changes(part: &Part, table: &Table<'_>, parts: &[Part]) -> Result<(), SpecError> {
    let pairs = |part: &Part| -> Vec<(String, String)> {
        let name = |variant: usize| part.variants[variant].name.clone();
        part.contrasts.iter().map(|c| (name(c.variant), name(c.baseline))).collect()
    };
    for change in &part.changes {
        let others = || parts.iter().filter(|other| other.name != part.name);
        let Some(from) = others().find(|other| other.name == change.from) else {
            let names = others().map(|other| other.name.as_str());
            let error = at(table, "changes", format!("there is no other part '{}'", change.from));
            return Err(error.help(suggestion(&change.from, names)));
        };
        let known = pairs(from);
        if !pairs(part).iter().any(|pair| known.contains(pair)) {
            let message =
                format!("'{}' and '{}' have no comparison in common", part.name, from.name);
            return Err(at(table, "changes", message));
        }
    }
    Ok(())
}

/// `on` of a variant that runs on this machine although its part's others do not.
const HERE: &str = "here";

fn at(table: &Table<'_>, key: &str, message: impl Into<String>) -> SpecError {
    let span = table.get(key).map_or(table.span.clone(), |value| value.span());
    table.source.error(span, message)
}

/// Reads one part; what it does not specify comes from `[experiment]`.
struct PartReader<'f, 'a> {
    file: &'f File<'a>,
    part: Option<&'f Table<'a>>,
    vars: Vars,
}

impl<'a> PartReader<'_, 'a> {
    fn scope(&self) -> Scope {
        self.file.scope(self.vars.clone())
    }

    fn name(&self) -> Result<String, SpecError> {
        let Some(part) = self.part else { return Ok(String::new()) };
        let name =
            part.text("name", &self.scope())?.ok_or_else(|| part.error("[[part]] has no name"))?;
        check_name(part, &name)?;
        Ok(name)
    }

    fn read(&self, name: String) -> Result<Part, SpecError> {
        let mut schedule = self.schedule()?;
        let mut variants = self.variants(&schedule)?;
        let acts = variants.iter().any(|variant| !variant.actions.is_empty());
        if acts {
            self.schedule_for_actions(&mut schedule)?;
        }
        let capacity = capacity::aim(self.source_of("capacity"), &self.scope(), &mut variants)?;
        schedule.why &= capacity.is_none();
        let part = Part {
            question: self.question()?,
            offers: self.offers()?,
            contrasts: self.contrasts(&variants, acts)?,
            primary: self.choice("primary", &Metric::NAMES)?.unwrap_or_default(),
            deciding_secondaries: 0,
            layout: self.choice("layout", &LAYOUTS)?.unwrap_or_default(),
            schedule,
            published: self.published(&name, &variants)?,
            changes: self.changes()?,
            from: self.from()?,
            capacity,
            variants,
            name,
        };
        match far::check(&part) {
            Ok(()) => Ok(part),
            Err(refusal) => {
                let place = self.part.unwrap_or(&self.file.experiment);
                Err(place.error(refusal.message).help(refusal.help))
            }
        }
    }

    /// In what the part differs from others.
    fn changes(&self) -> Result<Vec<Change>, SpecError> {
        let Some(part) = self.part else { return Ok(Vec::new()) };
        let scope = self.scope();
        let read = |table: &Table<'_>| {
            let text = |key: &str| match table.text(key, &scope)? {
                Some(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                _ => Err(table.error(format!("{} has no {key}", table.title))),
            };
            Ok(Change { from: text("from")?, what: text("what")? })
        };
        tables(part, "changes", "[[part.changes]]", &["from", "what"])?.iter().map(read).collect()
    }

    /// The machines that load the part.
    fn from(&self) -> Result<Vec<String>, SpecError> {
        let words = self.source_of("from").words("from")?;
        Ok(words.into_iter().map(|(word, _)| word).collect())
    }

    /// The machine of a variant's stack, and its address: its own, the part's or the experiment's.
    fn place(&self, cell: &Cell<'a>, variant: &mut Variant) -> Result<(), SpecError> {
        let scope = self.scope();
        let of = |key: &str| match cell.table.get(key) {
            Some(_) => cell.table.text(key, &scope),
            None => self.source_of(key).text(key, &scope),
        };
        variant.on = of("on")?.filter(|host| host != HERE);
        variant.address = of("address")?;
        Ok(())
    }

    /// The table that specifies this key: the part's if it does, else `[experiment]`.
    fn source_of(&self, key: &str) -> &Table<'a> {
        match self.part {
            Some(part) if part.get(key).is_some() => part,
            _ => &self.file.experiment,
        }
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, SpecError> {
        self.source_of(key).choice(key, choices, &self.scope())
    }

    fn question(&self) -> Result<String, SpecError> {
        let question = self.source_of("question").text("question", &self.scope())?;
        Ok(question.unwrap_or_default().trim().to_owned())
    }

    /// The experiment's table and then the part's, if present.
    fn layers(&self, key: &str, keys: &[&str]) -> Result<Vec<Table<'a>>, SpecError> {
        let common = if key == "load" { &self.file.load } else { &self.file.schedule };
        let mut layers: Vec<Table<'a>> = common.iter().cloned().collect();
        if let Some(part) = self.part {
            layers.extend(tables(part, key, &format!("[part.{key}]"), keys)?);
        }
        Ok(layers)
    }

    fn variants(&self, schedule: &Schedule) -> Result<Vec<Variant>, SpecError> {
        let loads = self.layers("load", &LOAD_KEYS)?;
        let mut variants: Vec<Variant> = Vec::new();
        for cell in self.cells()? {
            if variants.iter().any(|known| known.name == cell.name) {
                let message = format!("two variants are named '{}'", cell.name);
                return Err(at(&cell.table, "name", message));
            }
            let mut read = variant(self.file, &cell, &self.vars, &loads, schedule)?;
            self.place(&cell, &mut read)?;
            variants.push(read);
        }
        if variants.is_empty() {
            let place = self.part.unwrap_or(&self.file.experiment);
            return Err(place
                .error("there is no variant")
                .help("a [[variant]] has a name, a process and a target"));
        }
        Ok(variants)
    }

    /// The variants that the part selects, or all in the file; then the part's own.
    fn cells(&self) -> Result<Vec<Cell<'a>>, SpecError> {
        let Some(part) = self.part else { return cells(self.file, &self.file.variants) };
        let own = tables(part, "variant", "[[part.variant]]", &super::variant::keys())?;
        let mut chosen = match part.get("variants") {
            Some(_) => chosen(self.file, part)?,
            None if own.is_empty() => cells(self.file, &self.file.variants)?,
            None => Vec::new(),
        };
        chosen.extend(cells(self.file, &own)?);
        Ok(chosen)
    }

    fn offers(&self) -> Result<Vec<Offer>, SpecError> {
        let table = self.source_of("offers");
        let values = table.one_or_many("offers");
        if values.is_empty() {
            return Ok(default_offers());
        }
        values.into_iter().map(|value| offer(table, value, &self.scope())).collect()
    }

    /// The contrasts; if actions happen during the load, only declared ones: the result is what the
    /// actions cost, and not a ratio.
    fn contrasts(&self, variants: &[Variant], acts: bool) -> Result<Vec<Contrast>, SpecError> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let given = self.source_of("contrasts").words("contrasts")?;
        let unknown = |name: &str, span: Range<usize>| {
            self.file
                .source
                .error(span, format!("there is no variant '{name}'"))
                .help(suggestion(name, names.iter().copied()))
        };
        if !given.is_empty() {
            return given
                .into_iter()
                .map(|(pair, span)| {
                    contrast(&pair, &names).map_err(|wrong| match wrong {
                        Some(name) => unknown(&name, span),
                        None => self.file.source.error(
                            span,
                            "a contrast is written as \"VARIANT / BASELINE\", two different variants",
                        ),
                    })
                })
                .collect();
        }
        let table = self.source_of("baseline");
        let baseline = match table.plain("baseline")? {
            None if acts => return Ok(Vec::new()),
            None => 0,
            Some(name) => names.iter().position(|known| *known == name).ok_or_else(|| {
                let span = table.get("baseline").map_or(table.span.clone(), |value| value.span());
                unknown(&name, span)
            })?,
        };
        let others = (0..names.len()).filter(|variant| *variant != baseline);
        Ok(others.map(|variant| Contrast { baseline, variant }).collect())
    }

    fn schedule(&self) -> Result<Schedule, SpecError> {
        let mut schedule = Schedule::default();
        let scope = self.scope();
        let layers = self.layers("schedule", &SCHEDULE_KEYS)?;
        for table in &layers {
            read_schedule(&mut schedule, table, &scope)?;
        }
        match (schedule.check(), layers.last()) {
            (Ok(()), _) => Ok(schedule),
            (Err(message), Some(table)) => Err(table.error(message)),
            (Err(message), None) => Err(SpecError::new(message)),
        }
    }

    /// Actions and what they cause belong to one variant, so its trials are one slice each, one
    /// variant after another.
    fn schedule_for_actions(&self, schedule: &mut Schedule) -> Result<(), SpecError> {
        for table in self.layers("schedule", &SCHEDULE_KEYS)?.iter().rev() {
            if table.get("slice").is_some() {
                let message = "a part with actions has one slice per trial, as long as its window";
                return Err(at(table, "slice", message).help("remove slice"));
            }
            if table.flag("isolated")? == Some(false) {
                let message = "a part with actions loads one variant at a time";
                return Err(at(table, "isolated", message).help("remove isolated"));
            }
        }
        schedule.isolated = true;
        schedule.one_slice = true;
        schedule.slice = schedule.window;
        Ok(())
    }

    fn published(
        &self,
        name: &str,
        variants: &[Variant],
    ) -> Result<Vec<PublishedFigure>, SpecError> {
        let own = match self.part {
            Some(part) => tables(part, "published", "[[part.published]]", &PUBLISHED_KEYS[..4])?,
            None => Vec::new(),
        };
        let given = if own.is_empty() { &self.file.published } else { &own };
        // Figures of the whole experiment go to the parts that have the variant; figures of one
        // part must match it.
        let of_all_parts = own.is_empty() && self.part.is_some();
        let mut published = Vec::new();
        for table in given {
            if table.plain("part")?.is_some_and(|part| part != name) {
                continue;
            }
            let entry = read_published(table)?;
            match &entry.variant {
                Some(name) if !variants.iter().any(|variant| variant.name == *name) => {
                    if !of_all_parts {
                        let message = format!("there is no variant '{name}'");
                        return Err(at(table, "variant", message));
                    }
                }
                _ => published.push(entry),
            }
        }
        Ok(published)
    }
}

const LAYOUTS: [(&str, Layout); 3] =
    [("split", Layout::Split), ("same", Layout::Same), ("free", Layout::Free)];

/// `VARIANT / BASELINE`; the error names the unknown variant, or is `None` if the syntax is wrong.
fn contrast(text: &str, names: &[&str]) -> Result<Contrast, Option<String>> {
    let find = |name: &str| names.iter().position(|known| *known == name.trim());
    let mut wrong = None;
    for (slash, _) in text.match_indices('/') {
        let (variant, baseline) = (&text[..slash], &text[slash + 1..]);
        match (find(variant), find(baseline)) {
            (Some(variant), Some(baseline)) if variant != baseline => {
                return Ok(Contrast { baseline, variant });
            }
            (Some(_), Some(_)) => return Err(None),
            (None, _) => wrong = wrong.or(Some(variant.trim().to_owned())),
            (_, None) => wrong = wrong.or(Some(baseline.trim().to_owned())),
        }
    }
    Err(wrong)
}

fn offer(table: &Table<'_>, value: &Value<'_>, scope: &Scope) -> Result<Offer, SpecError> {
    let source = table.source;
    let wanted = "an offer is \"closed\", { open = \"50%\" } or { open = \"2000/s\" }";
    if !is_table(value) {
        return match plain(source, value, "offers") {
            Ok(word) if word == "closed" => Ok(Offer::Closed),
            _ => Err(source.error(value.span(), wanted)),
        };
    }
    let entry = Table::open(source, value, "an offer", &["open", "arrivals"])?;
    let spacings = [("poisson", Arrivals::Poisson), ("uniform", Arrivals::Uniform)];
    let arrivals = entry.choice("arrivals", &spacings, scope)?.unwrap_or_default();
    let open = entry.text("open", scope)?.ok_or_else(|| entry.error(wanted))?;
    if open.ends_with('%') {
        return match parse_fraction(&open) {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(Offer::OpenShare { share, arrivals }),
            _ => Err(at(&entry, "open", "a share of the capacity lies between 0% and 100%")),
        };
    }
    match parse_rate(&open) {
        Ok(rate_per_s) => Ok(Offer::OpenRate { rate_per_s, arrivals }),
        Err(_) => Err(at(&entry, "open", wanted)),
    }
}

fn read_schedule(
    schedule: &mut Schedule,
    table: &Table<'_>,
    scope: &Scope,
) -> Result<(), SpecError> {
    let or = |given: Option<f64>, value: f64| given.unwrap_or(value);
    schedule.precision = or(table.fraction("precision", scope)?, schedule.precision);
    schedule.confidence = or(table.fraction("confidence", scope)?, schedule.confidence);
    schedule.pilot_blocks = table.number("pilot_blocks", scope)?.unwrap_or(schedule.pilot_blocks);
    schedule.max_blocks = table.number("max_blocks", scope)?.unwrap_or(schedule.max_blocks);
    schedule.max_time = table.time("max_time", scope)?.or(schedule.max_time);
    schedule.slice = table.time("slice", scope)?.unwrap_or(schedule.slice);
    schedule.window = table.time("window", scope)?.unwrap_or(schedule.window);
    schedule.warmup = table.time("warmup", scope)?.unwrap_or(schedule.warmup);
    schedule.isolated = table.flag("isolated")?.unwrap_or(schedule.isolated);
    schedule.independent_starts =
        table.flag("independent_starts")?.unwrap_or(schedule.independent_starts);
    schedule.why = table.flag("why")?.unwrap_or(schedule.why);
    schedule.margin = table.fraction("margin", scope)?.map(Margin).or(schedule.margin);
    Ok(())
}

fn read_published(table: &Table<'_>) -> Result<PublishedFigure, SpecError> {
    let scope = Scope { vars: Vars::new(), declared: Default::default() };
    let throughput = table.rate("throughput", &scope)?;
    Ok(PublishedFigure {
        variant: table.plain("variant")?,
        figure: super::required(table, "figure")?,
        throughput_per_s: throughput,
        source: super::required(table, "source")?,
    })
}
