//! What makes the difference in CPU time: a table, and all calls as a picture.

use maud::{Markup, html};
use record::{CallDifference, Part, Why};

use super::{note, section, tables};
use crate::text::sentence;
use crate::why::{self, CostUnit};

/// How the picture is to be read.
const PICTURE: &str = "Each box is a function, below it what it calls. Its width is its CPU time per \
    request in the variant that needs more. Red boxes need more in the second variant, blue ones less, \
    the stronger the more; boxes without colour do not differ with certainty. The page's search finds \
    functions by name.";

pub(super) fn sections(part: &Part) -> Markup {
    html! { @for why in &part.why { (one(part, why)) } }
}

fn one(part: &Part, why: &Why) -> Markup {
    let unit = CostUnit::of(why);
    let [baseline, variant] = [why.baseline, why.variant].map(|v| crate::view::name(part, v));
    let head = html! {
        th { (why::HEADS[0]) }
        th { (baseline) ", " (unit.word()) } th { (variant) ", " (unit.word()) }
        th { (why::HEADS[1]) } th { (why::HEADS[2]) }
    };
    let rows = html! {
        @for row in why::rows(why) {
            tr.sum[row.is_sum] {
                td.name { (row.name) @if !row.module.is_empty() { small { (row.module) } } }
                @for cell in &row.cells { td { (cell) } }
            }
        }
    };
    let body = html! {
        p { (sentence(&why::sentence(part, why))) }
        (tables::table(head, rows))
        (note(html! { (why::LEGEND) " " (sentence(&why::method(why))) " " (sentence(&why::agreement(why))) }))
        (waits(part, why))
        (system_calls(why))
        (kernel_functions(why, unit, [baseline, variant]))
        (groups(why, unit, [baseline, variant]))
        (picture(why, unit))
    };
    section(why::TITLE, body)
}

fn waits(part: &Part, why: &Why) -> Markup {
    html! { @for words in why::waits_in_words(part, why) { p { (sentence(&words)) } } }
}

fn system_calls(why: &Why) -> Markup {
    let calls = why::call_rows(why);
    let head = html! { @for head in why::CALL_HEADS { th { (head) } } };
    let rows = html! {
        @for call in calls.iter().take(16) {
            tr { td.name { (call.name) } td { (call.calls) } td { (call.time) } }
        }
    };
    html! {
        @if !calls.is_empty() {
            h4 { "System calls" }
            (tables::table(head, rows))
            (note("Calls are counted while each variant warms up, time is sampled under load."))
        }
    }
}

/// The functions of the kernel that differ with certainty.
fn kernel_functions(why: &Why, unit: CostUnit, names: [&str; 2]) -> Markup {
    let head = html! {
        th { "function of the kernel" }
        th { (names[0]) ", " (unit.word()) } th { (names[1]) ", " (unit.word()) }
        th { (why::HEADS[1]) } th { (why::HEADS[2]) }
    };
    let rows = html! {
        @for row in why.kernel_functions.iter().take(16) {
            tr {
                td.name { (why::name(&row.function)) }
                td { (unit.number(row.own.baseline_ns)) }
                td { (unit.number(row.own.variant_ns)) }
                td { (unit.interval(&row.own.difference_ns)) }
                td { (unit.interval(&row.with_callees.difference_ns)) }
            }
        }
    };
    html! { @if !why.kernel_functions.is_empty() { h4 { "In the kernel" } (tables::table(head, rows)) } }
}

/// By what functions belong to.
fn groups(why: &Why, unit: CostUnit, names: [&str; 2]) -> Markup {
    let mut groups: Vec<_> = why.groups.iter().collect();
    groups.sort_by(|a, b| {
        let size = |group: &record::GroupDifference| group.own.difference_ns.value.abs();
        size(b).total_cmp(&size(a))
    });
    let head = html! {
        th { "belongs to" } th { (names[0]) ", " (unit.word()) } th { (names[1]) ", " (unit.word()) }
        th { "difference" }
    };
    let rows = html! {
        @for group in groups.iter().take(16) {
            tr {
                td.name { (group.name) }
                td { (unit.number(group.own.baseline_ns)) }
                td { (unit.number(group.own.variant_ns)) }
                td { (unit.interval(&group.own.difference_ns)) }
            }
        }
    };
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
        (note(PICTURE))
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
        let class = match (cost.is_certain(), cost.difference_ns.value > 0.0) {
            (false, _) => "call",
            (true, true) => "call more",
            (true, false) => "call less",
        };
        let strength =
            (cost.difference_ns.value.abs() / self.largest.max(f64::MIN_POSITIVE)).sqrt();
        let width = self.widths[place] / all.max(f64::MIN_POSITIVE) * 100.0;
        let strength = if cost.is_certain() { strength * 100.0 } else { 0.0 };
        let name = why::name(&call.function);
        let about = format!(
            "{name} [{}]: {} and {} {unit}, {} {unit} per request",
            call.function.module,
            self.unit.number(cost.baseline_ns),
            self.unit.number(cost.variant_ns),
            self.unit.interval(&cost.difference_ns),
            unit = self.unit.word(),
        );
        html! {
            div style={ "width:" (format!("{width:.2}")) "%" } {
                span class=(class) style={ "--d:" (format!("{strength:.0}")) "%" } title=(about) { (name) }
                (self.calls(&self.children[place], self.widths[place]))
            }
        }
    }
}
