//! `tachograph run`: an experiment from a file.

use record::RunKind;
use spec::{Contrast, Margin, Offer, Part, Plan, SpecError};

use super::accuracy;
use super::measure::carry_out;
use crate::experiments::{self, Experiment};
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::compare::ScheduleFlags;
use crate::flags::run::RunFlags;
use crate::flags::servers::SiteFlags;
use crate::output;

pub(crate) fn run(flags: &RunFlags, global: &GlobalFlags) -> Outcome {
    let found = experiments::find(&flags.experiment)?;
    if flags.show {
        output::print(&found.text())?;
        if let Some(words) = found.needs_in_words() {
            output::note(&format!(
                "note: {words}; to copy all of it: tachograph run {} --eject FOLDER",
                flags.experiment
            ));
        }
        return Ok(Status::Well);
    }
    if let Some(folder) = &flags.eject {
        let ejected = found.eject(folder)?;
        output::print(&format!(
            "{}\nrun it with: tachograph run {}\n",
            ejected.files.join("\n"),
            ejected.experiment.display()
        ))?;
        return Ok(Status::Well);
    }
    let mut plan = match found.experiment()? {
        Experiment::Plan(plan) => *plan,
        Experiment::Accuracy(experiment) => return accuracy::run(experiment, flags, global),
    };
    choose(&mut plan, &flags.only, &flags.skip)?;
    place(&mut plan, &flags.site)?;
    if let Some(baseline) = &flags.baseline {
        rebase(&mut plan, baseline)?;
    }
    for part in &mut plan.parts {
        shorten(part, &flags.schedule);
    }
    if flags.offer.closed_only {
        leave_closed(&mut plan)?;
    }
    let keep = flags.keep_files.as_deref();
    carry_out(&plan, RunKind::Run, keep, &flags.schedule, &flags.result, global)
}

/// Applies `--only` and `--skip`: whole parts by name, or variants within parts.
fn choose(plan: &mut Plan, only: &[String], skip: &[String]) -> Result<(), Failure> {
    let named = |name: &str, texts: &[String]| texts.iter().any(|text| name.contains(text));
    plan.parts.retain(|part| !named(&part.name, skip));
    for part in &mut plan.parts {
        let whole = only.is_empty() || named(&part.name, only);
        keep_variants(part, |name| (whole || named(name, only)) && !named(name, skip));
    }
    plan.parts.retain(|part| !part.variants.is_empty());
    if plan.parts.is_empty() {
        return Err(Failure::new(
            "nothing left to run after --only and --skip; 'tachograph run --show NAME' prints the \
             names",
        ));
    }
    Ok(())
}

/// Places all variants on the machines of the command line, and leaves out those that cannot run
/// there.
fn place(plan: &mut Plan, site: &SiteFlags) -> Result<(), Failure> {
    if site.on.is_none() && site.clients.from.is_empty() {
        return match &site.clients.at {
            None => Ok(()),
            Some(_) => {
                Err(Failure::new("--at is the address of a server on another machine; add --on"))
            }
        };
    }
    let mut refused: Vec<SpecError> = Vec::new();
    for part in &mut plan.parts {
        if !site.clients.from.is_empty() {
            part.from.clone_from(&site.clients.from);
        }
        for variant in &mut part.variants {
            variant.on = site.on.clone().or(variant.on.take());
            variant.address = site.clients.at.clone().or(variant.address.take());
        }
        let mut unfit: Vec<String> = Vec::new();
        for variant in &part.variants {
            if let Err(error) = spec::check_placement(part, variant) {
                unfit.push(variant.name.clone());
                refused.push(error);
            }
        }
        keep_variants(part, |name| unfit.iter().all(|of| of != name));
    }
    plan.parts.retain(|part| !part.variants.is_empty());
    if !plan.parts.is_empty() {
        for SpecError { message, .. } in refused {
            output::note(&format!("note: left out: {message}"));
        }
        return Ok(());
    }
    let Some(first) = refused.into_iter().next() else { return Ok(()) };
    match &site.on {
        Some(host) if !site.clients.from.contains(host) => Err(Failure::new(format!(
            "nothing of {} can run there: {}; with --from {host} too, its client is on the same \
             machine",
            plan.name, first.message
        ))),
        _ => Err(first.into()),
    }
}

fn keep_variants(part: &mut Part, keep: impl Fn(&str) -> bool) {
    let kept: Vec<usize> =
        (0..part.variants.len()).filter(|i| keep(&part.variants[*i].name)).collect();
    let place = |old: usize| kept.iter().position(|k| *k == old);
    part.contrasts = part
        .contrasts
        .iter()
        .filter_map(|c| Some(Contrast { baseline: place(c.baseline)?, variant: place(c.variant)? }))
        .collect();
    part.variants = kept.iter().map(|i| part.variants[*i].clone()).collect();
    if part.contrasts.is_empty() && !part.has_actions() {
        part.contrasts =
            (1..part.variants.len()).map(|variant| Contrast { baseline: 0, variant }).collect();
    }
}

/// Changes the baseline of all comparisons.
fn rebase(plan: &mut Plan, name: &str) -> Result<(), Failure> {
    let mut found = false;
    for part in &mut plan.parts {
        let Some(baseline) = part.variants.iter().position(|v| v.name == name) else { continue };
        found = true;
        let others = (0..part.variants.len()).filter(|variant| *variant != baseline);
        part.contrasts = others.map(|variant| Contrast { baseline, variant }).collect();
    }
    if found {
        return Ok(());
    }
    let mut names: Vec<&str> =
        plan.parts.iter().flat_map(|part| &part.variants).map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Err(Failure::new(format!("there is no variant '{name}'; there are: {}", names.join(", "))))
}

/// Applies the schedule from the command line.
fn shorten(part: &mut Part, flags: &ScheduleFlags) {
    let schedule = &mut part.schedule;
    if flags.quick {
        *schedule = schedule.quickened();
    }
    schedule.precision = flags.precision.unwrap_or(schedule.precision);
    schedule.isolated |= flags.isolated;
    schedule.independent_starts |= flags.independent_starts;
    schedule.why |= flags.why && part.capacity.is_none();
    schedule.margin = flags.margin.map(Margin).or(schedule.margin);
}

/// Removes all open loops.
fn leave_closed(plan: &mut Plan) -> Result<(), Failure> {
    for part in &mut plan.parts {
        part.offers.retain(|offer| *offer == Offer::Closed);
        if part.offers.is_empty() {
            return Err(Failure::new(format!(
                "part '{}' has no closed loop, so --closed-only leaves nothing of it",
                part.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_baseline_is_taken_where_there_is_one() {
        let variant = |name: &str| {
            format!(
                "{{ name = \"{name}\", target = \"http://127.0.0.1:$PORT\", process = {{ command = \"x\" }} }}"
            )
        };
        let text = format!(
            "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n[[part]]\nname = \"one\"\nvariant = [{}, {}, {}]\n[[part]]\nname = \"two\"\nvariant = [{}]\n",
            variant("a"),
            variant("b"),
            variant("c"),
            variant("d")
        );
        let mut plan = spec::parse_plan(&text, "x.toml").unwrap();
        rebase(&mut plan, "b").unwrap();
        let pair = |variant| Contrast { baseline: 1, variant };
        assert_eq!(plan.parts[0].contrasts, [pair(0), pair(2)]);
        assert_eq!(plan.parts[1].contrasts, []);
        assert_eq!(
            rebase(&mut plan, "e").unwrap_err().to_string(),
            "there is no variant 'e'; there are: a, b, c, d"
        );
    }
}
