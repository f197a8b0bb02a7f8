//! What makes the difference in CPU time, or what it is needed for: tables, and all calls as a picture.

use maud::{Markup, html};
use record::{CallDifference, Part, Why};

use super::{note, section, tables};
use crate::text::sentence;
use crate::why::{self, CostUnit};

/// How the picture is to be read.
fn picture_legend(why: &Why) -> &'static str {
    match why.baseline {
        Some(_) => {
            "Each box is a function, below it what it calls. Its width is its CPU time per request in the \
             variant that needs more. Red boxes need more in the second variant, blue ones less, the \
             stronger the more; boxes without colour do not differ with certainty. The page's search \
             finds functions by name."
        }
        None => {
            "Each box is a function, below it what it calls. Its width is its CPU time per request. The \
             page's search finds functions by name."
        }
    }
}

pub(super) fn sections(part: &Part) -> Markup {
    html! { @for why in &part.why { (one(part, why)) } }
}

fn one(part: &Part, why: &Why) -> Markup {
    let unit = CostUnit::of(why);
    let heads = why::heads(part, why);
    let rows = html! {
        @for row in why::rows(why) {
            tr.sum[row.is_sum] {
                td.name.function { (row.name) @if !row.module.is_empty() { small { (row.module) } } }
                @for cell in &row.cells { td { (cell) } }
            }
        }
    };
    let body = html! {
        p { (sentence(&why::sentence(part, why))) }
        (tables::table(head(why::FUNCTION, &heads), rows))
        (note(html! {
            (why::legend(why)) " " (sentence(&why::method(why))) " " (sentence(&why::agreement(why)))
            @for hint in why::hints(why) { " " (sentence(&hint)) }
        }))
        (waits(part, why))
        (system_calls(why))
        (kernel_functions(why, unit, &heads))
        (groups(why, unit, &heads))
        (picture(why, unit))
    };
    section(why::title(why), body)
}

fn head(first: &str, heads: &[String]) -> Markup {
    html! { th { (first) } @for head in heads { th { (head) } } }
}

fn waits(part: &Part, why: &Why) -> Markup {
    html! { @for words in why::waits_in_words(part, why) { p { (sentence(&words)) } } }
}

fn system_calls(why: &Why) -> Markup {
    let calls = why::call_rows(why);
    let is_counted = calls.iter().any(|call| call.calls.is_some());
    let [name, number, time] = why::CALL_HEADS;
    let head = html! { th { (name) } @if is_counted { th { (number) } } th { (time) } };
    let rows = html! {
        @for call in calls.iter().take(16) {
            tr {
                td.name.function { (call.name) }
                @if is_counted { td { (call.calls.as_deref().unwrap_or_default()) } }
                td { (call.time) }
            }
        }
    };
    html! {
        @if !calls.is_empty() {
            h4 { "System calls" }
            (tables::table(head, rows))
            @if is_counted {
                (note("Calls are counted while each variant warms up, time is sampled under load."))
            }
        }
    }
}

/// The functions of the kernel that differ with certainty.
fn kernel_functions(why: &Why, unit: CostUnit, heads: &[String]) -> Markup {
    let rows = html! {
        @for row in why.kernel_functions.iter().take(16) {
            tr {
                td.name.function { (why::name(&row.function)) }
                @for cell in unit.cells(why, &row.own, Some(&row.with_callees)) { td { (cell) } }
            }
        }
    };
    let head = head("function of the kernel", heads);
    html! { @if !why.kernel_functions.is_empty() { h4 { "In the kernel" } (tables::table(head, rows)) } }
}

/// By what functions belong to.
fn groups(why: &Why, unit: CostUnit, heads: &[String]) -> Markup {
    let mut groups: Vec<_> = why.groups.iter().collect();
    groups.sort_by(|a, b| {
        let size = |group: &record::GroupDifference| group.own.difference_ns.value.abs();
        size(b).total_cmp(&size(a))
    });
    // Nothing is known of what they call.
    let heads = &heads[..heads.len() - 1];
    let rows = html! {
        @for group in groups.iter().take(16) {
            tr {
                td.name.function { (group.name) }
                @for cell in &unit.cells(why, &group.own, None)[..heads.len()] { td { (cell) } }
            }
        }
    };
    let head = head("belongs to", heads);
    html! { h4 { "By program, file and part of the kernel" } (tables::table(head, rows)) }
}

/// All calls, each below its caller.
fn picture(why: &Why, unit: CostUnit) -> Markup {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); why.calls.len()];
    let mut roots = Vec::new();
    for (place, call) in why.calls.iter().enumerate() {
        match call.caller {
            Some(caller) => children[caller as usize].push(place),
            None => roots.push(place),
        }
    }
    // A call is as wide as its calls and itself, so that none juts out.
    let mut widths = vec![0.0; why.calls.len()];
    for place in (0..why.calls.len()).rev() {
        let call = &why.calls[place].with_callees;
        let below = |of: fn(&CallDifference) -> f64| {
            children[place].iter().map(|child| of(&why.calls[*child])).sum::<f64>()
        };
        let own = [
            call.baseline_ns - below(|call| call.with_callees.baseline_ns),
            call.variant_ns - below(|call| call.with_callees.variant_ns),
        ];
        let inner: f64 = children[place].iter().map(|child| widths[*child]).sum();
        widths[place] = inner + own[0].max(own[1]).max(0.0);
    }
    let certain = why.calls.iter().filter(|call| call.with_callees.is_certain());
    let sizes = certain.map(|call| call.with_callees.difference_ns.value.abs());
    let flame = Flame { why, unit, children, widths, largest: sizes.fold(0.0, f64::max) };
    let all: f64 = roots.iter().map(|root| flame.widths[*root]).sum();
    html! {
        h4 { "All calls" }
        div.flame role="img" aria-label="All calls by CPU time per request" {
            (flame.calls(&roots, all))
        }
        (note(picture_legend(why)))
    }
}

struct Flame<'a> {
    why: &'a Why,
    unit: CostUnit,
    children: Vec<Vec<usize>>,
    widths: Vec<f64>,
    /// The largest certain difference.
    largest: f64,
}

impl Flame<'_> {
    /// Calls beside each other, in a box as wide as `all`.
    fn calls(&self, places: &[usize], all: f64) -> Markup {
        let mut places = places.to_vec();
        places.sort_by(|a, b| self.widths[*b].total_cmp(&self.widths[*a]));
        html! {
            @if !places.is_empty() {
                div.calls { @for place in places { (self.call(place, all)) } }
            }
        }
    }

    fn call(&self, place: usize, all: f64) -> Markup {
        let call = &self.why.calls[place];
        let cost = &call.with_callees;
        let is_coloured = self.why.baseline.is_some() && cost.is_certain();
        let class = match (is_coloured, cost.difference_ns.value > 0.0) {
            (false, _) => "call",
            (true, true) => "call more",
            (true, false) => "call less",
        };
        let strength =
            (cost.difference_ns.value.abs() / self.largest.max(f64::MIN_POSITIVE)).sqrt();
        let width = self.widths[place] / all.max(f64::MIN_POSITIVE) * 100.0;
        let strength = if is_coloured { strength * 100.0 } else { 0.0 };
        let name = why::name(&call.function);
        let figures = self.unit.cells(self.why, cost, None);
        let figures = match figures.as_slice() {
            [baseline, variant, difference, ..] => {
                format!("{baseline} and {variant} {0}, {difference}", self.unit.word())
            }
            of_one => of_one[0].clone(),
        };
        let about = format!(
            "{name} [{}]: {figures} {} per request",
            call.function.module,
            self.unit.word()
        );
        html! {
            div style={ "width:" (format!("{width:.2}")) "%" } {
                span class=(class) style={ "--d:" (format!("{strength:.0}")) "%" } title=(about) { (name) }
                (self.calls(&self.children[place], self.widths[place]))
            }
        }
    }
}
