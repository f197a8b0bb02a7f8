//! `action`: what is done to a stack while it is loaded.

use base::Nanos;

use super::File;
use super::reader::{Scope, Table, Value};
use crate::action::{Action, ActionStep, Deed, SIGNALS, TIMES_MAX};
use crate::error::{SpecError, suggestion};
use crate::plan::{Process, Schedule};

const ACTION_KEYS: [&str; 8] =
    ["name", "signal", "command", "process", "at", "every", "times", "then"];
const STEP_KEYS: [&str; 4] = ["after", "signal", "command", "process"];

/// Where the first action of a trial is by default: connections have settled by then.
const AT: Nanos = Nanos::from_secs(1);

/// Reads the actions of a variant from the last of its layers that has any, and checks that each
/// ends within the window.
pub(super) fn actions(
    file: &File<'_>,
    layers: &[Table<'_>],
    processes: &[Process],
    schedule: &Schedule,
    scope: &Scope,
) -> Result<Vec<Action>, SpecError> {
    let Some(table) = layers.iter().rev().find(|table| table.get("action").is_some()) else {
        return Ok(Vec::new());
    };
    let reader = ActionReader { file, processes, scope };
    let actions = table.one_or_many("action").into_iter().map(|value| {
        let action = reader.action(table, value)?;
        let last = action.last_step_at();
        if last >= schedule.window {
            let message = format!(
                "the action '{}' would happen at {last}, but the measured time of a trial is {}",
                action.name, schedule.window
            );
            let help = "raise window in [schedule], or lower at, every or times";
            return Err(file.source.error(value.span(), message).help(help));
        }
        Ok(action)
    });
    actions.collect()
}

struct ActionReader<'f, 'a> {
    file: &'f File<'a>,
    processes: &'f [Process],
    scope: &'f Scope,
}

impl ActionReader<'_, '_> {
    fn action(&self, table: &Table<'_>, value: &Value<'_>) -> Result<Action, SpecError> {
        let title = format!("an action of {}", table.title);
        let entry = Table::open(self.file.source, value, title, &ACTION_KEYS)?;
        let first = ActionStep { after: Nanos::ZERO, deed: self.deed(&entry)? };
        let mut steps = vec![first];
        for value in entry.one_or_many("then") {
            let title = format!("then of {}", entry.title);
            let step = Table::open(self.file.source, value, title, &STEP_KEYS)?;
            let after = step.time("after", self.scope)?.unwrap_or_default();
            steps.push(ActionStep { after, deed: self.deed(&step)? });
        }
        let times = entry.number("times", self.scope)?;
        let every = entry.time("every", self.scope)?;
        match (times, every) {
            (Some(times), _) if times == 0 || times > TIMES_MAX => {
                let message = format!("times must be from 1 to {TIMES_MAX}, not {times}");
                return Err(self.at(&entry, "times", message));
            }
            (Some(2..), None) => {
                let message = "times needs every, such as every = \"2s\"";
                return Err(self.at(&entry, "times", message));
            }
            (None, Some(_)) => {
                let message = "every needs times, such as times = 3";
                return Err(self.at(&entry, "every", message));
            }
            (_, Some(Nanos::ZERO)) => {
                return Err(self.at(&entry, "every", "every must be greater than zero"));
            }
            _ => {}
        }
        let words: Vec<String> = steps.iter().map(|step| step.deed.in_words()).collect();
        Ok(Action {
            name: entry.text("name", self.scope)?.unwrap_or_else(|| words.join(", then ")),
            steps,
            at: entry.time("at", self.scope)?.unwrap_or(AT),
            every: every.unwrap_or_default(),
            times: times.unwrap_or(1),
        })
    }

    fn deed(&self, entry: &Table<'_>) -> Result<Deed, SpecError> {
        let signal = entry.text("signal", self.scope)?;
        let command = entry.text("command", self.scope)?.filter(|text| !text.trim().is_empty());
        match (signal, command) {
            (Some(signal), None) => {
                let signal = self.signal(entry, &signal)?;
                Ok(Deed::Signal { signal, process: self.process(entry)? })
            }
            (None, Some(_)) if entry.get("process").is_some() => {
                let message =
                    "process belongs to signal: a command has the pids in its environment";
                Err(self.at(entry, "process", message))
            }
            (None, Some(command)) => Ok(Deed::Command(command)),
            _ => {
                let message = format!("{} needs either a signal or a command", entry.title);
                Err(entry.error(message).help("such as signal = \"HUP\""))
            }
        }
    }

    fn signal(&self, entry: &Table<'_>, written: &str) -> Result<&'static str, SpecError> {
        let word = written.strip_prefix("SIG").unwrap_or(written);
        let names = SIGNALS.iter().map(|(name, _)| *name);
        names.clone().find(|name| *name == word).ok_or_else(|| {
            let error = self.at(entry, "signal", format!("there is no signal '{written}'"));
            error.help(suggestion(word, names))
        })
    }

    /// The process to signal: the named one, or the only one.
    fn process(&self, entry: &Table<'_>) -> Result<usize, SpecError> {
        let names = || self.processes.iter().map(|process| process.name.as_str());
        let named = entry.text("process", self.scope)?;
        let index = match (named, self.processes.len()) {
            (_, 0) => {
                let message = "there is no process to signal: the variant starts none";
                let help = "give its stack a process, or use a command instead of a signal";
                return Err(self.at(entry, "signal", message).help(help));
            }
            (Some(name), _) => names().position(|known| known == name).ok_or_else(|| {
                let message = format!("there is no process '{name}' in the stack");
                self.at(entry, "process", message).help(suggestion(&name, names()))
            })?,
            (None, 1) => 0,
            (None, _) => {
                let list = names().collect::<Vec<_>>().join(", ");
                let message = format!("signal needs a process: the stack has several ({list})");
                return Err(self.at(entry, "signal", message));
            }
        };
        if self.processes[index].command.starts_with("$TACHOGRAPH container ") {
            let message = "a signal does not reach the processes in a container";
            let help = "use a command, such as command = \"docker kill -s HUP NAME\"";
            return Err(self.at(entry, "signal", message).help(help));
        }
        Ok(index)
    }

    fn at(&self, entry: &Table<'_>, key: &str, message: impl Into<String>) -> SpecError {
        let span = entry.get(key).map_or(entry.span.clone(), |value| value.span());
        self.file.source.error(span, message)
    }
}
