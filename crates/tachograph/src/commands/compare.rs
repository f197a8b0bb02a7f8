//! `tachograph compare`: start each command, load each in interleaved rounds, say which is faster.

use record::RunKind;
use spec::{Arrivals, CompareArgs, Offer, ServedBy};

use super::measure::carry_out;
use crate::failure::Outcome;
use crate::flags::Global;
use crate::flags::compare::CompareFlags;

pub(crate) fn run(flags: &CompareFlags, global: &Global) -> Outcome {
    let served_by =
        flags.served_by.iter().map(|text| ServedBy::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let mut offers = vec![Offer::Closed];
    if !flags.closed_only {
        offers.push(Offer::OpenShare { share: flags.open_share, arrivals: Arrivals::Poisson });
    }
    let plan = spec::compare_plan(&CompareArgs {
        commands: flags.commands.clone(),
        names: flags.name.clone(),
        path: flags.path.clone(),
        load: flags.request.load(false)?,
        precision: flags.schedule.precision,
        margin: flags.schedule.margin,
        quick: flags.schedule.quick,
        isolated: flags.schedule.isolated,
        max_time: flags.schedule.max_time,
        max_blocks: None,
        served_by,
        layout: flags.layout,
        offers,
        primary: flags.primary,
        ready_timeout: Some(flags.ready_timeout),
    })?;
    carry_out(&plan, RunKind::Compare, None, &flags.schedule, &flags.verdict, global)
}
