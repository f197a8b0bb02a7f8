//! `tachograph man`: the manual, generated from the definition of the command line.

use clap_mangen::Man;

use crate::failure::{Failure, Outcome, Status};
use crate::flags::definition;
use crate::flags::doctor::ManFlags;
use crate::output;

pub(crate) fn run(flags: &ManFlags) -> Outcome {
    match &flags.out {
        None => output::print(&page(definition())?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::new(format!("cannot create {}: {error}", folder.display()))
            })?;
            let mut command = definition();
            command.build();
            output::write_file(&folder.join("tachograph.1"), &page(command.clone())?)?;
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let name = format!("tachograph-{}", sub.get_name());
                let text = page(sub.clone().name(name.clone()))?;
                output::write_file(&folder.join(format!("{name}.1")), &text)?;
            }
        }
    }
    Ok(Status::Well)
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text).map_err(Failure::new)?;
    Ok(String::from_utf8_lossy(&text).into_owned() + COLOPHON)
}

/// Who wrote the program, and what may be done with it: in every page, because each may be read alone.
const COLOPHON: &str = concat!(
    ".SH AUTHORS\n",
    env!("CARGO_PKG_AUTHORS"),
    ", ",
    env!("CARGO_PKG_REPOSITORY"),
    "\n.SH COPYRIGHT\nCopyright (C) 2026 ",
    env!("CARGO_PKG_AUTHORS"),
    ".\nFree software under the MIT licence or version 2.0 of the Apache licence, as you choose.\n\
     There is no warranty.\n",
);
