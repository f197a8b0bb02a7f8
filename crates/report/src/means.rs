//! Tables of mean times and their ratios: of kinds of request, and of the parts of responses.

use base::Nanos;
use record::{Comparison, Distribution, Offer, Part};
use stats::Estimate;

use crate::page::{Page, TableRow};
use crate::text::{Tone, ratio};
use crate::{validity, view};

/// A table with its words.
pub(crate) struct MeansTable {
    pub(crate) title: &'static str,
    /// What the rows are.
    pub(crate) first: &'static str,
    /// The names of the other columns.
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<TableRow>,
    /// What the columns are.
    pub(crate) legend: String,
}

impl MeansTable {
    pub(crate) fn on_page(&self, page: &mut Page<'_>) {
        let heads: Vec<&str> = self.heads.iter().map(String::as_str).collect();
        page.blank();
        page.table(self.first, &heads, &self.rows);
        page.paragraph(Tone::Dim, 2, &self.legend);
    }
}

/// The mean of all values of these distributions.
pub(crate) fn mean<'a>(all: impl Iterator<Item = &'a Distribution> + Clone) -> String {
    let count: u64 = all.clone().map(|times| times.count).sum();
    let total: f64 = all.map(|times| times.mean_ns * times.count as f64).sum();
    match count {
        0 => "–".to_owned(),
        _ => Nanos((total / count as f64).round() as u64).to_string(),
    }
}

/// The offer whose times are shown: the open one, if there was one.
pub(crate) fn offer(part: &Part) -> Option<Offer> {
    let trials = || part.measured_blocks().flat_map(|block| block.measured_trials());
    let is_open = trials().any(|trial| trial.offer == Offer::Open);
    if is_open { Some(Offer::Open) } else { trials().next().map(|trial| trial.offer) }
}

/// What the times of an offer are.
pub(crate) fn word(offer: Offer) -> &'static str {
    match offer {
        Offer::Open => "latency",
        _ => "service time",
    }
}

/// Each baseline and variant once.
pub(crate) fn pairs(all: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut once = Vec::new();
    for pair in all {
        if !once.contains(&pair) {
            once.push(pair);
        }
    }
    once
}

/// `unix ÷ tcp`.
pub(crate) fn sides(part: &Part, (baseline, variant): (u32, u32)) -> String {
    format!("{} ÷ {}", view::name(part, variant), view::name(part, baseline))
}

/// The ratio of two variants with its interval, unless their comparison is INVALID.
pub(crate) fn ratio_cell(part: &Part, pair: (u32, u32), estimate: Option<&Estimate>) -> String {
    let is_pair = |of: &&Comparison| (of.baseline, of.variant) == pair;
    if part.comparisons.iter().filter(is_pair).any(|of| of.primary && validity::is_refused(of)) {
        return "INVALID".to_owned();
    }
    let found = estimate.map(ratio);
    found.map_or("–".to_owned(), |(value, interval)| format!("{value} ({interval})"))
}
