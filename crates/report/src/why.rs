//! What makes the difference in CPU time, or what it is needed for, in rows for every exporter.

use std::collections::BTreeMap;

use record::{
    CallDifference, CostDifference, CountDifference, Function, Part, Profile, SystemCallDifference,
    Why,
};
use stats::Estimate;

use crate::page::Page;
use crate::text::{Tone, left, plural, right, sentence as capitalised};
use crate::view;

/// The heading in every format.
pub(crate) fn title(why: &Why) -> &'static str {
    match why.baseline {
        Some(_) => "What makes the difference in CPU time",
        None => "What CPU time is needed for",
    }
}

/// How many functions have a row of their own.
const FUNCTIONS: usize = 10;

/// What the columns of times are.
pub(crate) fn legend(why: &Why) -> &'static str {
    match why.baseline {
        Some(_) => {
            "Time is CPU time per request: in the function itself, and with all that it calls. Rows are \
             functions, parts of the kernel, and modules as a whole, that differ with certainty: their \
             intervals, which share one error probability of 5%, do not contain 0."
        }
        None => {
            "Time is CPU time per request: in the function itself, and with all that it calls. The \
             intervals share one error probability of 5%."
        }
    }
}

/// The head of the first column.
pub(crate) const FUNCTION: &str = "function";

/// The heads of the columns of figures: those of both variants, the difference, and with what it calls;
/// without a baseline the last two.
pub(crate) fn heads(part: &Part, why: &Why) -> Vec<String> {
    let unit = CostUnit::of(why).word();
    let side = |variant: u32| format!("{}, {unit}", view::name(part, variant));
    let whole = "with what it calls".to_owned();
    match why.baseline {
        Some(baseline) => vec![side(baseline), side(why.variant), "difference".to_owned(), whole],
        None => vec![format!("itself, {unit}"), whole],
    }
}

/// How many system calls are told.
const SYSTEM_CALLS: usize = 5;

/// The longest name of a variant above a column.
const NAME_MAX: usize = 14;

/// A row: a function, or several together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WhyRow {
    /// The function.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) module: String,
    /// As in [`heads`]; what is not known is empty.
    pub(crate) cells: Vec<String>,
    /// Whether it is a sum of several.
    pub(crate) is_sum: bool,
}

/// One unit for all rows of a comparison, so that they can be added up by eye.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostUnit {
    ns: f64,
    word: &'static str,
    decimals: usize,
}

impl CostUnit {
    /// The unit in which the largest of these costs has three or four digits.
    pub(crate) fn of(why: &Why) -> CostUnit {
        let largest = why.own.baseline_ns.max(why.own.variant_ns);
        let unit = |ns: f64, word: &'static str| {
            let decimals = match largest / ns {
                many if many >= 1000.0 => 0,
                some if some >= 100.0 => 1,
                few if few >= 10.0 => 2,
                _ => 3,
            };
            CostUnit { ns, word, decimals }
        };
        match largest {
            long if long >= 1e6 => unit(1e6, "ms"),
            _ => unit(1e3, "µs"),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        self.word
    }

    /// A cost without its unit.
    pub(crate) fn number(self, ns: f64) -> String {
        format!("{:.*}", self.decimals, ns / self.ns)
    }

    /// A difference without its unit, with its sign.
    pub(crate) fn signed(self, ns: f64) -> String {
        let text = self.number(ns.abs());
        // Nothing has no sign.
        let is_zero = text.chars().all(|c| matches!(c, '0' | '.'));
        match (is_zero, ns < 0.0) {
            (true, _) => text,
            (false, true) => format!("−{text}"),
            (false, false) => format!("+{text}"),
        }
    }

    /// A cost with its interval: `41.0 (37.2 to 44.9)`.
    fn range(self, estimate: &Estimate) -> String {
        with_interval(estimate, |ns| self.number(ns))
    }

    /// The figures of a row.
    pub(crate) fn cells(
        self,
        why: &Why,
        own: &CostDifference,
        whole: Option<&CostDifference>,
    ) -> Vec<String> {
        match why.baseline {
            Some(_) => vec![
                self.number(own.baseline_ns),
                self.number(own.variant_ns),
                self.interval(&own.difference_ns),
                whole.map_or(String::new(), |all| self.interval(&all.difference_ns)),
            ],
            None => vec![
                self.range(&own.difference_ns),
                whole.map_or(String::new(), |all| self.range(&all.difference_ns)),
            ],
        }
    }

    /// A difference with its interval: `+41.0 (+37.2 to +44.9)`.
    pub(crate) fn interval(self, estimate: &Estimate) -> String {
        with_interval(estimate, |ns| self.signed(ns))
    }
}

/// An estimate with its interval, if that is known.
fn with_interval(estimate: &Estimate, number: impl Fn(f64) -> String) -> String {
    let Estimate { value, low, high } = *estimate;
    match low.is_finite() && high.is_finite() {
        true => format!("{} ({} to {})", number(value), number(low), number(high)),
        false => number(value),
    }
}

/// The rows of a comparison; the last one is the sum of all others.
pub(crate) fn rows(why: &Why) -> Vec<WhyRow> {
    let unit = CostUnit::of(why);
    let cells = |own: &CostDifference, whole: Option<&CostDifference>| unit.cells(why, own, whole);
    let shown = why.functions.len().min(FUNCTIONS);
    let mut rows: Vec<WhyRow> = why.functions[..shown]
        .iter()
        .map(|row| WhyRow {
            name: row_name(&row.function),
            module: module(&row.function),
            cells: cells(&row.own, Some(&row.with_callees).filter(|_| !is_whole(&row.function))),
            is_sum: false,
        })
        .collect();
    let sum = |name: String, cells: Vec<String>| WhyRow {
        name,
        module: String::new(),
        cells,
        is_sum: true,
    };
    let more = &why.functions[shown..];
    if !more.is_empty() {
        let of = |cost: fn(&CostDifference) -> f64| more.iter().map(|row| cost(&row.own)).sum();
        let (before, after): (f64, f64) = (of(|own| own.baseline_ns), of(|own| own.variant_ns));
        // The interval of a sum of functions that were chosen after looking at them is not known.
        let value = after - before;
        let unknown = Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
        let own = CostDifference { baseline_ns: before, variant_ns: after, difference_ns: unknown };
        let words = if why.baseline.is_some() { "more that differ" } else { "more" };
        rows.push(sum(format!("{} {words}", more.len()), cells(&own, None)));
    }
    let unnamed = &why.unnamed;
    let others = match why.functions.is_empty() {
        true => plural(u64::from(why.other_functions), "function"),
        false => plural(u64::from(why.other_functions), "other function"),
    };
    let has_unnamed = unnamed.baseline_ns > 0.0 || unnamed.variant_ns > 0.0;
    let without = if has_unnamed { ", and what has no name" } else { "" };
    rows.push(sum(format!("{others}{without}"), cells(&why.others, None)));
    rows.push(sum("all, by samples".to_owned(), cells(&why.own, None)));
    rows
}

/// A function's name for people.
pub(crate) fn name(function: &Function) -> String {
    match &function.name {
        Some(name) => name.clone(),
        None => "(no name)".to_owned(),
    }
}

/// The name of a row: a function, a part of the kernel, or a module.
fn row_name(function: &Function) -> String {
    match (function.is_kernel(), function.is_module()) {
        (true, _) => format!("kernel: {}", name(function)),
        (_, true) => format!("{} as a whole", name(function)),
        _ => name(function),
    }
}

/// Whether a row is no single function: a part of the kernel, or a module. As a whole these call nothing.
fn is_whole(function: &Function) -> bool {
    function.is_kernel() || function.is_module()
}

fn module(function: &Function) -> String {
    if is_whole(function) { String::new() } else { function.module.clone() }
}

/// What differs, in a sentence.
pub(crate) fn sentence(part: &Part, why: &Why) -> String {
    let unit = CostUnit::of(why);
    let variant = view::name(part, why.variant);
    let difference = &why.own.difference_ns;
    let Some(baseline) = why.baseline.map(|baseline| view::name(part, baseline)) else {
        let most = why.functions.first().map_or(String::new(), |first| {
            let most = unit.range(&first.own.difference_ns);
            format!(", most of it in {}: {most} {}", row_name(&first.function), unit.word())
        });
        return format!(
            "CPU time: {variant} needs {} {} per request{most}",
            unit.range(difference),
            unit.word()
        );
    };
    let interval = format!(
        "{} to {} {}",
        unit.signed(difference.low),
        unit.signed(difference.high),
        unit.word()
    );
    let whole = match why.own.is_certain() {
        false => format!(
            "CPU time: {variant} and {baseline} do not differ with certainty ({interval} per request)"
        ),
        true => format!(
            "CPU time: {variant} needs {} {} {} per request than {baseline} ({interval})",
            unit.number(difference.value.abs()),
            unit.word(),
            if difference.value > 0.0 { "more" } else { "less" },
        ),
    };
    match why.functions.first() {
        None => format!("{whole}; nothing in it differs with certainty"),
        Some(first) => format!(
            "{whole}; most of all differs {} with {} {}",
            row_name(&first.function),
            unit.interval(&first.own.difference_ns),
            unit.word()
        ),
    }
}

/// How far the samples agree with what was counted: `by samples 61.2 and 105.3 µs, counted by the
/// control group 61.0 and 105.9 µs`.
pub(crate) fn agreement(why: &Why) -> String {
    let unit = CostUnit::of(why);
    let both = |cost: &CostDifference| match why.baseline {
        Some(_) => {
            format!("{} and {}", unit.number(cost.baseline_ns), unit.number(cost.variant_ns))
        }
        None => unit.number(cost.variant_ns),
    };
    let off = |sampled: f64, counted: f64| (sampled / counted - 1.0).abs();
    let of_variant = off(why.own.variant_ns, why.counted.variant_ns);
    let of_baseline = off(why.own.baseline_ns, why.counted.baseline_ns);
    let worst = if why.baseline.is_some() { of_variant.max(of_baseline) } else { of_variant };
    let mut words = format!(
        "CPU time per request by samples {} {}, counted by the kernel {} {}: {:.1}% apart{}",
        both(&why.own),
        unit.word(),
        both(&why.counted),
        unit.word(),
        worst * 100.0,
        if why.baseline.is_some() { " at most" } else { "" }
    );
    let interrupts = unit.signed(why.interrupts.baseline_ns.max(why.interrupts.variant_ns));
    if interrupts.starts_with('+') {
        words += &format!(
            "; interrupts on idle CPUs, which are not in it, {} {}",
            both(&why.interrupts),
            unit.word()
        );
    }
    words
}

/// CPU time without names that is worth a hint, as a share of all.
const UNNAMED_SHARE: f64 = 0.05;

/// The function in which CPython executes those of a program.
const PYTHON_INTERPRETER: &str = "_PyEval_EvalFrameDefault";

/// What to install or to set for more names.
pub(crate) fn hints(why: &Why) -> Vec<String> {
    let cost = |cost: &CostDifference| cost.baseline_ns.max(cost.variant_ns);
    let all = cost(&why.own);
    let is_much = |call: &&CallDifference| cost(&call.with_callees) > all * UNNAMED_SHARE;
    let mut hints = Vec::new();
    let is_python =
        |call: &CallDifference| call.function.name.as_deref() == Some(PYTHON_INTERPRETER);
    if why.calls.iter().filter(is_much).any(is_python) {
        hints.push(
            "functions in Python have no names here: that needs Python 3.12 or later and, unless tachograph \
             starts the server, its option -X perf"
                .to_owned(),
        );
    }
    let mut unnamed: Vec<&str> = Vec::new();
    for call in why.calls.iter().filter(is_much).filter(|call| call.function.name.is_none()) {
        if !unnamed.contains(&call.function.module.as_str()) {
            unnamed.push(&call.function.module);
        }
    }
    for module in unnamed {
        hints.push(match module {
            Function::KERNEL => {
                "the kernel's functions have no names here: that needs kernel.kptr_restrict at 0, or root"
                    .to_owned()
            }
            module => format!(
                "functions of {module} have no names here: install its debug symbols (in Debian a package \
                 that ends in -dbgsym), or do not strip it"
            ),
        });
    }
    hints
}

/// How to read the rows' circumstances: blocks, intervals.
pub(crate) fn method(why: &Why) -> String {
    let base = match why.blocks {
        1 => "intervals by the number of samples".to_owned(),
        many => plural(u64::from(many), "block"),
    };
    format!(
        "{base}, {} intervals at once; sampling costs about 1% of the CPU time",
        base::format_count(u64::from(why.tested))
    )
}

/// Everything for the terminal.
pub(crate) fn on_page(page: &mut Page<'_>, part: &Part) {
    for why in &part.why {
        page.blank();
        page.paragraph(Tone::Bold, 2, capitalised(&sentence(part, why)));
        for (index, line) in lines(part, why, page.style.columns()).iter().enumerate() {
            let tone = if index == 0 { Tone::Dim } else { Tone::Plain };
            page.line(page.style.paint(tone, line));
        }
        page.paragraph(Tone::Dim, 2, capitalised(&agreement(why)));
        for call in call_rows(why).iter().filter(|call| call.differs).take(SYSTEM_CALLS) {
            page.paragraph(
                Tone::Plain,
                2,
                format!("system call {}: {}", call.name, call.figures()),
            );
        }
        for words in waits_in_words(part, why) {
            page.paragraph(Tone::Plain, 2, capitalised(&words));
        }
        for hint in hints(why) {
            page.paragraph(Tone::Dim, 2, capitalised(&hint));
        }
    }
}

/// The rows in lines of at most `columns`; the head comes first.
pub(crate) fn lines(part: &Part, why: &Why, columns: usize) -> Vec<String> {
    let rows = rows(why);
    let heads = heads(part, why);
    let head = |index: usize| match heads[index].rsplit_once(", ") {
        Some((name, unit)) => format!("{}, {unit}", crate::text::fit(name, NAME_MAX)),
        None => heads[index].clone(),
    };
    // A narrow terminal has the difference only, then also what was before and after.
    let sets: [&[usize]; 3] = match why.baseline {
        Some(_) => [&[0, 1, 2, 3], &[0, 1, 2], &[2]],
        None => [&[0, 1], &[0], &[0]],
    };
    let width_of = |column: usize| {
        let cells = rows.iter().map(|row| crate::text::width(&row.cells[column]));
        cells.chain([crate::text::width(&head(column))]).max().unwrap_or(0)
    };
    const NAME_MIN: usize = 24;
    let needed = |set: &[usize]| -> usize { set.iter().map(|c| width_of(*c) + 2).sum() };
    let set = sets.iter().find(|set| needed(set) + NAME_MIN <= columns).unwrap_or(&sets[2]);
    let room = columns.saturating_sub(needed(set)).max(12);
    let full = |row: &WhyRow| match row.module.is_empty() {
        true => row.name.clone(),
        false => format!("{}  [{}]", row.name, row.module),
    };
    let names: Vec<String> = rows.iter().map(|row| crate::text::fit(&full(row), room)).collect();
    let longest = names.iter().map(|name| crate::text::width(name)).max().unwrap_or(0);
    let line = |name: &str, cells: &dyn Fn(usize) -> String| {
        let cells: String =
            set.iter().map(|c| format!("  {}", right(&cells(*c), width_of(*c)))).collect();
        left(name, longest) + &cells
    };
    let mut lines = vec![line(FUNCTION, &head)];
    lines.extend(rows.iter().zip(&names).map(|(row, name)| line(name, &|c| row.cells[c].clone())));
    lines
}

/// The heads of the columns of system calls.
pub(crate) const CALL_HEADS: [&str; 3] = ["system call", "calls per request", "time in it"];

/// A system call: its name, calls per request of both variants if they were counted, and the difference
/// in time.
pub(crate) struct CallRow {
    pub(crate) name: String,
    pub(crate) calls: Option<String>,
    pub(crate) time: String,
    /// Whether one of the two differs with certainty.
    pub(crate) differs: bool,
}

impl CallRow {
    /// `1.00 → 2.00 per request; 4.2 → 8.1 µs, +3.9 (+3.1 to +4.7)`.
    pub(crate) fn figures(&self) -> String {
        let calls = self.calls.as_ref().map(|calls| format!("{calls} per request; "));
        calls.unwrap_or_default() + &self.time
    }
}

/// The system calls, those that take longest first.
pub(crate) fn call_rows(why: &Why) -> Vec<CallRow> {
    let unit = CostUnit::of(why);
    let row = |call: &SystemCallDifference| CallRow {
        name: call.name.clone(),
        calls: call.calls.as_ref().map(|calls| match why.baseline {
            Some(_) => format!("{} → {}", count(calls.baseline), count(calls.variant)),
            None => count(calls.variant),
        }),
        time: match why.baseline {
            Some(_) => format!(
                "{} → {} {}, {}",
                unit.number(call.time.baseline_ns),
                unit.number(call.time.variant_ns),
                unit.word(),
                unit.interval(&call.time.difference_ns)
            ),
            None => format!("{} {}", unit.range(&call.time.difference_ns), unit.word()),
        },
        differs: call.calls.as_ref().is_some_and(CountDifference::is_certain)
            || call.time.is_certain(),
    };
    why.system_calls.iter().map(row).collect()
}

/// Numbers without a unit, such as how often something happens.
const TIMES: CostUnit = CostUnit { ns: 1.0, word: "times", decimals: 2 };

/// A number per request.
fn count(value: f64) -> String {
    if value.abs() < 9.995 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// A sentence for each kind of waiting that differs with certainty, and by a number that can be seen.
pub(crate) fn waits_in_words(part: &Part, why: &Why) -> Vec<String> {
    let Some(waits) = &why.waits else { return Vec::new() };
    let delay = &waits.run_delay;
    let unit = CostUnit::of(why);
    let Some(baseline) = why.baseline.map(|baseline| view::name(part, baseline)) else {
        return vec![format!(
            "threads went to sleep {} times per request, lost their CPU to others {} times, and waited {} {} \
             for a CPU when they could run",
            count(waits.voluntary.variant),
            count(waits.involuntary.variant),
            unit.number(delay.variant_ns),
            unit.word()
        )];
    };
    let variant = view::name(part, why.variant);
    let is_seen = |difference: String| difference.starts_with(['+', '−']);
    let counted = |what: &str, of: &CountDifference| {
        (of.is_certain() && is_seen(TIMES.signed(of.difference.value))).then(|| {
            format!(
                "threads {what} {} times per request in {variant}, {} times in {baseline}: {}",
                count(of.variant),
                count(of.baseline),
                TIMES.interval(&of.difference)
            )
        })
    };
    let is_told = delay.is_certain() && is_seen(unit.signed(delay.difference_ns.value));
    let delay = is_told.then(|| {
        format!(
            "threads that could run waited {} {unit} per request for a CPU in {variant}, {} {unit} in {baseline}: \
             {} {unit}",
            unit.number(delay.variant_ns),
            unit.number(delay.baseline_ns),
            unit.interval(&delay.difference_ns),
            unit = unit.word()
        )
    });
    let kinds = [
        counted("went to sleep", &waits.voluntary),
        counted("lost their CPU to others", &waits.involuntary),
        delay,
    ];
    kinds.into_iter().flatten().collect()
}

/// The samples of each variant in all complete blocks as folded stacks, the input of flame graphs: a
/// line for each stack, its functions separated by `;`, and its number of samples. With the names of
/// the variants; only those with samples.
pub fn folded(part: &Part) -> Vec<(String, String)> {
    let of_variant = |(index, variant): (usize, &record::Variant)| {
        let trials = part.complete_blocks().flat_map(|block| block.measured_trials());
        let trials = trials.filter(|trial| trial.variant as usize == index);
        let text = fold(trials.filter_map(|trial| trial.profile.as_ref()));
        (!text.is_empty()).then(|| (variant.name.clone(), text))
    };
    part.variants.iter().enumerate().filter_map(of_variant).collect()
}

fn fold<'a>(profiles: impl Iterator<Item = &'a Profile>) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for profile in profiles {
        let mut paths: Vec<String> = Vec::with_capacity(profile.calls.len());
        for call in &profile.calls {
            let function = &profile.functions[call.function as usize];
            // Semicolons separate functions.
            let frame = format!("{} [{}]", name(function), function.module).replace(';', ":");
            let path = match call.caller {
                Some(caller) => format!("{};{frame}", paths[caller as usize]),
                None => frame,
            };
            if call.samples > 0 {
                *stacks.entry(path.clone()).or_default() += call.samples;
            }
            paths.push(path);
        }
    }
    stacks.iter().map(|(stack, samples)| format!("{stack} {samples}\n")).collect()
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
