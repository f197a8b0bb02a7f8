//! `tachograph`: benchmarks whose numbers add up.

mod commands;
mod experiments;
mod failure;
mod flags;
mod machine;
mod output;
mod progress;
mod repository;
mod stores;

use std::process::ExitCode;

use failure::{Outcome, Status};
use flags::{Cli, Command};

fn main() -> ExitCode {
    netio::use_builtin_lookups();
    // The guard is started by our own stage, before any flags are parsed; the agent by a tachograph on
    // another machine.
    if let Some(status) = commands::guard::requested() {
        return status;
    }
    // On another machine, by the script that has copied this program there.
    if let Some(status) = commands::self_hash::requested() {
        return status;
    }
    if let Some(status) = commands::agent::requested() {
        return status;
    }
    match flags::parse().and_then(|cli| cli.map_or(Ok(Status::Well), run)) {
        Ok(status) => status.into(),
        Err(failure) => {
            output::error(&failure);
            ExitCode::from(2)
        }
    }
}

fn run(Cli { command, global }: Cli) -> Outcome {
    match command {
        Command::Load(flags) => commands::load::run(&flags, &global),
        Command::Capacity(flags) => commands::capacity::run(&flags, &global),
        Command::Compare(flags) => commands::compare::run(&flags, &global),
        Command::Diff(flags) => commands::diff::run(&flags, &global),
        Command::Replay(flags) => commands::replay::run(&flags, &global),
        Command::Run(flags) => commands::run::run(&flags, &global),
        Command::List(flags) => commands::list::run(&flags, &global),
        Command::Report(flags) => commands::report::run(&flags, &global),
        Command::Import(flags) => commands::import::run(&flags, &global),
        Command::Query(flags) => commands::query::run(&flags, &global),
        Command::Series(flags) => commands::series::run(&flags, &global),
        Command::Export(flags) => commands::export::run(&flags, &global),
        Command::Publish(flags) => commands::publish::run(&flags),
        Command::Serve(flags) => commands::serve::run(&flags, &global),
        Command::Maintain => commands::maintain::run(&global),
        Command::Doctor(flags) => commands::doctor::run(&flags, &global),
        Command::ServeFixture(flags) => commands::serve_fixture::run(&flags),
        Command::Container(flags) => commands::container::run(&flags),
        Command::Completions(flags) => commands::completions::run(&flags),
        Command::Man(flags) => commands::man::run(&flags),
    }
}
