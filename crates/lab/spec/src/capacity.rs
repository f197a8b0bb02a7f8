//! `tachograph capacity`: the conditions, and a plan of one part without contrasts of its own.

use base::Nanos;

use crate::capacity_aim::CapacityAim;
use crate::compare::{CompareArgs, plan_of};
use crate::error::SpecError;
use crate::plan::{Plan, Variant};

/// The highest rate to offer if nothing else is said.
pub(crate) const SEARCH_RATE_MAX_PER_S: f64 = 1e6;

/// Turns commands and conditions into a plan.
///
/// # Errors
/// Those of a comparison, no condition, or one that cannot hold or fail.
pub fn capacity_plan(args: &CompareArgs, aim: CapacityAim) -> Result<Plan, SpecError> {
    let mut plan = plan_of(args, 1, "capacity")?;
    check_aim(&aim, &plan.parts[0].variants, &|name, value| match value {
        Some(value) => format!("--{name} {value}"),
        None => format!("--{name}"),
    })?;
    plan.question = match plan.parts[0].variants.len() {
        1 => "At which rate does the condition stop holding?".to_owned(),
        _ => "At which rates does the condition stop holding?".to_owned(),
    };
    let part = &mut plan.parts[0];
    part.question.clone_from(&plan.question);
    part.capacity = Some(aim);
    Ok(plan)
}

/// Fails unless a search can look for this with these variants. `write` writes an option as the user
/// does, alone or with a value.
///
/// # Errors
/// Without a condition, or with one that always or never holds, or that cannot be known.
pub(crate) fn check_aim(
    aim: &CapacityAim,
    variants: &[Variant],
    write: &dyn Fn(&str, Option<&str>) -> String,
) -> Result<(), SpecError> {
    if aim.latency.is_none() && aim.errors.is_none() && aim.cpu.is_none() {
        let [latency, errors, cpu] = [("p99", "50ms"), ("max-errors", "0.1%"), ("cpu", "80%")]
            .map(|(name, value)| write(name, Some(value)));
        return Err(SpecError::new("no condition: at which rate is the server at its capacity?")
            .help(format!("add {latency}, {errors} or {cpu}")));
    }
    let is_running = |variant: &Variant| variant.stack.processes.is_empty();
    if aim.cpu.is_some() && variants.iter().any(is_running) {
        return Err(SpecError::new("the CPU time of a server that already runs is not known")
            .help("give the command that starts it instead of its URL"));
    }
    if let Some(latency) = aim.latency {
        let timeout = variants.iter().map(|variant| variant.load.timeout).min().unwrap_or_default();
        if latency.limit == Nanos::ZERO {
            return Err(SpecError::new("no request takes less than 0s").help(format!(
                "write a limit that requests can keep, such as {}",
                write("p99", Some("50ms"))
            )));
        }
        if latency.limit >= timeout {
            return Err(SpecError::new(format!(
                "the limit of {} is not below the timeout of {timeout}",
                latency.limit
            ))
            .help("raise the timeout"));
        }
        if !(0.0..1.0).contains(&latency.quantile) || latency.quantile == 0.0 {
            return Err(SpecError::new("a quantile is between 0 and 1, such as 0.99"));
        }
    }
    for (name, share) in [("max-errors", aim.errors), ("cpu", aim.cpu)] {
        if share.is_some_and(|share| share <= 0.0 || share >= 1.0) {
            let (name, shown) = (write(name, None), write(name, Some("1%")));
            return Err(SpecError::new(format!("{name} is a share between 0% and 100%"))
                .help(format!("a share of 0% or 100% says nothing about a rate; write {shown}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity_aim::LatencyLimit;
    use crate::load::Load;

    fn refusal(change: impl FnOnce(&mut CompareArgs, &mut CapacityAim)) -> String {
        let mut args = CompareArgs {
            commands: vec!["./server --port $PORT".to_owned()],
            load: Load::default(),
            ..CompareArgs::default()
        };
        let latency = Some(LatencyLimit { quantile: 0.99, limit: Nanos::from_millis(50) });
        let mut aim = CapacityAim { latency, errors: None, cpu: None, rate_max_per_s: 1e6 };
        change(&mut args, &mut aim);
        capacity_plan(&args, aim).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn one_command_with_a_condition_is_enough() {
        assert_eq!(refusal(|_, _| {}), "");
        assert!(refusal(|_, aim| aim.latency = None).contains("no condition"));
        assert!(refusal(|args, _| args.commands.clear()).contains("at least one command"));
    }

    #[test]
    fn conditions_that_say_nothing_are_refused() {
        let limit = |limit| {
            move |_: &mut CompareArgs, aim: &mut CapacityAim| {
                aim.latency = Some(LatencyLimit { quantile: 0.99, limit });
            }
        };
        assert!(refusal(limit(Nanos::ZERO)).contains("no request takes less than 0s"));
        assert!(refusal(limit(Nanos::from_secs(60))).contains("not below the timeout of 10"));
        for share in [0.0, 1.0, 2.0] {
            let refused = refusal(|_, aim| aim.errors = Some(share));
            assert!(refused.contains("--max-errors is a share between 0% and 100%"), "{refused}");
        }
        let running = |args: &mut CompareArgs, aim: &mut CapacityAim| {
            args.commands = vec!["http://127.0.0.1:8000/".to_owned()];
            aim.cpu = Some(0.5);
        };
        assert!(refusal(running).contains("already runs is not known"));
    }
}
