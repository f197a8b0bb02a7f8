//! `tachograph compare`: starts each command, loads them in interleaved rounds, reports which is
//! faster.

use record::RunKind;
use spec::{CompareArgs, Parameter, ServedBy, Values};

use super::hooks::around;
use super::measure::carry_out;
use crate::failure::{Failure, Outcome};
use crate::flags::GlobalFlags;
use crate::flags::compare::CompareFlags;

pub(crate) fn run(flags: &CompareFlags, global: &GlobalFlags) -> Outcome {
    let commands = Commands::of(flags)?;
    let comparison = &flags.comparison;
    let served_by = served_by(&commands.served_by)?;
    let plan = spec::compare_plan(&CompareArgs {
        commands: commands.commands,
        names: commands.names,
        served_by,
        prepare: commands.prepare,
        ..flags.site.place(comparison.args()?)
    })?;
    around(&commands.setup, &commands.cleanup, || {
        let (schedule, result) = (&comparison.schedule, &comparison.result);
        carry_out(&plan, RunKind::Compare, None, schedule, result, global)
    })
}

/// Parses the sources of server-side counts.
pub(super) fn served_by(texts: &[String]) -> Result<Vec<ServedBy>, spec::SpecError> {
    texts.iter().map(|text| ServedBy::parse(text)).collect()
}

/// The commands with all parameters expanded, and their settings.
struct Commands {
    commands: Vec<String>,
    names: Vec<String>,
    served_by: Vec<String>,
    prepare: Vec<String>,
    setup: Vec<String>,
    cleanup: Vec<String>,
}

impl Commands {
    fn of(flags: &CompareFlags) -> Result<Commands, Failure> {
        let parameters = parameters(flags)?;
        let expanded = spec::expand_parameters(&flags.commands, &parameters)?;
        let fill = |text: &str, values: &Values| {
            values.iter().fold(text.to_owned(), |text, (hole, value)| text.replace(hole, value))
        };
        let each = |text: &Option<String>| -> Vec<String> {
            let texts = text.iter().flat_map(|text| expanded.iter().map(|(_, v)| fill(text, v)));
            texts.collect()
        };
        // A name without a placeholder would be shared by several commands.
        let name = |(index, values): &(usize, Values)| {
            let given = flags.command_name.get(*index)?;
            let filled = fill(given, values);
            let assignments: Vec<String> = values
                .iter()
                .filter(|(hole, _)| !given.contains(hole.as_str()))
                .map(|(hole, value)| format!("{}={value}", hole.trim_matches(['{', '}'])))
                .collect();
            let words = std::iter::once(filled).chain(assignments).collect::<Vec<_>>().join(" ");
            Some(words)
        };
        let names: Vec<String> = match parameters.is_empty() {
            true => flags.command_name.clone(),
            false => expanded.iter().map_while(name).collect(),
        };
        let servers = &flags.comparison.servers;
        let served_by = match servers.served_by.len() {
            given if given == flags.commands.len() => {
                expanded.iter().map(|(index, v)| fill(&servers.served_by[*index], v)).collect()
            }
            _ => servers.served_by.clone(),
        };
        Ok(Commands {
            commands: expanded.iter().map(|(at, v)| fill(&flags.commands[*at], v)).collect(),
            names,
            served_by,
            prepare: each(&servers.prepare),
            setup: each(&servers.hooks.setup),
            cleanup: each(&servers.hooks.cleanup),
        })
    }
}

fn parameters(flags: &CompareFlags) -> Result<Vec<Parameter>, Failure> {
    let mut parameters = Vec::new();
    for words in flags.parameter_scan.chunks(3) {
        if let [name, low, high] = words {
            parameters.push(Parameter::scan(name, low, high, &flags.parameter_step_size)?);
        }
    }
    for words in flags.parameter_list.chunks(2) {
        if let [name, values] = words {
            parameters.push(Parameter::list(name, values)?);
        }
    }
    Ok(parameters)
}
