//! `tachograph capacity`: the highest rate at which conditions hold.

use record::RunKind;
use spec::CompareArgs;

use super::compare::served_by;
use super::hooks::around;
use super::measure::carry_out;
use crate::failure::Outcome;
use crate::flags::GlobalFlags;
use crate::flags::capacity::CapacityFlags;

pub(crate) fn run(flags: &CapacityFlags, global: &GlobalFlags) -> Outcome {
    let args = CompareArgs { served_by: served_by(&flags.servers.served_by)?, ..flags.args()? };
    let plan = spec::capacity_plan(&args, flags.aim())?;
    let each = |command: &Option<String>| -> Vec<String> { command.iter().cloned().collect() };
    let hooks = &flags.servers.hooks;
    around(&each(&hooks.setup), &each(&hooks.cleanup), || {
        carry_out(&plan, RunKind::Capacity, None, &flags.schedule(), &flags.result, global)
    })
}
