//! `tachograph doctor`: checks this machine, what each experiment lacks, and how to install it.

use std::path::Path;
use std::time::Duration;

use stage::container::ContainerEngine;

use super::neighbours;
use crate::experiments::{self, Experiment};
use crate::failure::{Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::doctor::DoctorFlags;
use crate::stores::RecordLocation;
use crate::{machine, output};

pub(crate) fn run(flags: &DoctorFlags, global: &GlobalFlags) -> Outcome {
    if let Some(host) = &flags.on {
        return super::doctor_on::run(host, flags.experiment.as_deref());
    }
    let mut text = String::new();
    let all_there = match &flags.experiment {
        Some(name) => Needs::of(&experiments::find(name)?.experiment()?).text(&mut text),
        None => {
            let place = RecordLocation::of(global)?;
            let all_ready = commands_text(&place, &mut text);
            text += &format!("\n{}", machine_text());
            text += &format!("\nRecord: {}\n", place.shown());
            text += "\nExperiments, with what each needs:\n";
            // What only some experiments need does not keep anybody from measuring.
            for found in experiments::built_in()? {
                Needs::of(&found.experiment()?).text(&mut text);
            }
            all_ready
        }
    };
    output::print(&text)?;
    Ok(if all_there { Status::Well } else { Status::VerdictFailed })
}

/// Which commands are ready; returns whether those that need nothing else are.
fn commands_text(place: &RecordLocation, text: &mut String) -> bool {
    let record = match place {
        RecordLocation::File(path) => can_write(path).map_err(|error| {
            format!(
                "cannot write the record {}: {error}; --record FILE chooses another one",
                path.display()
            )
        }),
        RecordLocation::Postgres(_) => Ok(()),
    };
    let runs = match place {
        RecordLocation::File(_) => record.clone(),
        RecordLocation::Postgres(_) => Err(format!(
            "runs need a record in a SQLite file, and {} stores only series; add --record FILE",
            place.shown()
        )),
    };
    let temp = std::env::temp_dir();
    let stacks = runs
        .clone()
        .and_then(|()| {
            can_write(&temp.join("x")).map_err(|error| {
                let temp = temp.display();
                format!("cannot write to {temp}: {error}; TMPDIR chooses another folder")
            })
        })
        .and_then(|()| stage::lock_folder().map(drop).map_err(|error| error.to_string()));
    *text += "Commands:\n";
    let mut all_ready = true;
    for (commands, state) in
        [("compare, run", &stacks), ("load", &runs), ("serve, import, query", &record)]
    {
        *text += &match state {
            Ok(()) => format!("  {OK} {commands}: ready\n"),
            Err(why) => format!("  {MISSING} {commands}: {why}\n"),
        };
        all_ready &= state.is_ok();
    }
    *text += &match (&stacks, stage::find_need("git")) {
        (Err(_), _) => String::new(),
        (Ok(()), Some(_)) => format!("  {OK} diff: ready\n"),
        (Ok(()), None) => {
            format!("  {WARN} diff: needs git; install it with: sudo apt install git\n")
        }
    };
    all_ready
}

/// Whether a file can be written, or created with its folders.
fn can_write(path: &Path) -> std::io::Result<()> {
    use rustix::fs::Access;
    let mut existing = path.ancestors().filter(|p| !p.as_os_str().is_empty() && p.exists());
    let (nearest, access) = match existing.next() {
        Some(file) if file == path => (file, Access::WRITE_OK),
        Some(folder) if !folder.is_dir() => return Err(std::io::ErrorKind::NotADirectory.into()),
        Some(folder) => (folder, Access::WRITE_OK | Access::EXEC_OK),
        None => (Path::new("."), Access::WRITE_OK | Access::EXEC_OK),
    };
    Ok(rustix::fs::access(nearest, access)?)
}

fn machine_text() -> String {
    let machine = machine::describe();
    let mut text = String::from("Machine:\n");
    let mut line = |sign: &str, what: &str| text += &format!("  {sign} {what}\n");
    line(
        OK,
        &format!(
            "{}, {} CPUs, {}",
            machine.cpu_model,
            machine.cpus,
            base::Bytes(machine.memory_bytes)
        ),
    );
    line(OK, &format!("{}, Linux {}", machine.os, machine.kernel));
    if machine.cpus < 2 {
        line(
            WARN,
            "only one CPU: client and server share it, and figures apply only to that layout",
        );
    }
    if let Some(hypervisor) = &machine.hypervisor {
        line(
            WARN,
            &format!(
                "a virtual machine ({hypervisor}): expect wider intervals while other guests of \
                 the host are busy"
            ),
        );
    }
    match machine.governor.as_deref() {
        None | Some("performance") => {}
        Some(governor) => line(
            WARN,
            &format!(
                "CPU frequency governor is '{governor}'; for steadier figures: sudo cpupower frequency-set -g performance"
            ),
        ),
    }
    match machine.connection_tracking {
        Some(true) => line(
            WARN,
            "connection tracking includes loopback: it costs 30–45% of new TCP connections, and \
             its table may fill up; to exclude loopback: sudo iptables -t raw -A PREROUTING -i lo \
             -j NOTRACK && sudo iptables -t raw -A OUTPUT -o lo -j NOTRACK",
        ),
        Some(false) => line(OK, "connection tracking excludes loopback"),
        None => line(WARN, "cannot determine whether connection tracking includes loopback"),
    }
    match machine.cgroup {
        0 => line(
            WARN,
            "no permission to create cgroups: CPU and memory of stacks are summed over their \
             processes",
        ),
        version => line(
            OK,
            &format!("cgroup v{version}: CPU and memory of stacks are counted by the kernel"),
        ),
    }
    match host::Neighbours::observe() {
        Err(error) => {
            line(WARN, &format!("cannot determine which other processes are busy: {error}"))
        }
        Ok(seen) => match neighbours::words(&seen, &base::CpuSet::default()) {
            Some(words) => line(WARN, &format!("{words}: {}", neighbours::COST)),
            None => line(OK, "no other process keeps a CPU busy"),
        },
    }
    text
}

const OK: &str = "ok     ";
const WARN: &str = "note   ";
const MISSING: &str = "MISSING";

/// Timeout of the container engine.
const PATIENCE: Duration = Duration::from_secs(2);

/// How to get an engine.
const FOR_ITSELF: &str =
    "or, as root, let scripts/with-docker.sh of the source tree start one for a single run";

/// What an experiment needs.
struct Needs {
    name: String,
    title: String,
    /// Programs, with the command that installs each.
    programs: Vec<(String, String)>,
    /// Python packages.
    python: Vec<String>,
    /// The interpreter of the Python packages, if it is not `python3`.
    interpreter: Option<String>,
    /// A container engine.
    engine: bool,
    /// Consequence for the experiment without one of them.
    without: &'static str,
}

impl Needs {
    fn of(experiment: &Experiment) -> Needs {
        match experiment {
            Experiment::Plan(plan) => Needs::of_plan(plan),
            Experiment::Accuracy(accuracy) => Needs {
                name: accuracy.experiment.name.clone(),
                title: accuracy.experiment.title.clone(),
                programs: accuracy::PROGRAMS.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
                python: accuracy::REQUIREMENTS.map(str::to_owned).into(),
                interpreter: None,
                engine: false,
                without: " (skipped without it)",
            },
        }
    }

    fn of_plan(plan: &spec::Plan) -> Needs {
        let mut programs: Vec<(String, String)> = Vec::new();
        if !plan.python.is_empty() {
            let (program, remedy) = match &plan.interpreter {
                None => ("python3", "sudo apt install python3 python3-venv".to_owned()),
                Some(name) => (name.as_str(), format!("a Python that provides {name} on PATH")),
            };
            programs.push((program.to_owned(), remedy));
        }
        for variant in plan.parts.iter().flat_map(|part| &part.variants) {
            for need in &variant.stack.needs {
                if !programs.contains(need) {
                    programs.push(need.clone());
                }
            }
        }
        let mut variants = plan.parts.iter().flat_map(|part| &part.variants);
        Needs {
            name: plan.name.clone(),
            title: plan.title.clone(),
            programs,
            python: plan.python.clone(),
            interpreter: plan.interpreter.clone(),
            engine: variants.any(|variant| variant.stack.needs_engine),
            without: "",
        }
    }

    /// Describes the needs; returns whether all are met.
    fn text(&self, text: &mut String) -> bool {
        *text += &format!("  {}: {}\n", self.name, self.title);
        let mut all_there = true;
        for (program, remedy) in &self.programs {
            match stage::find_need(program) {
                Some(path) => *text += &format!("    {OK} {program} ({})\n", path.display()),
                None => {
                    all_there = false;
                    *text += &format!(
                        "    {MISSING} {program}{}; install it with: {remedy}\n",
                        self.without
                    );
                }
            }
        }
        if self.engine {
            match ContainerEngine::from_environment(PATIENCE).and_then(|engine| engine.version()) {
                Ok(version) => *text += &format!("    {OK} a container engine, {version}\n"),
                Err(error) => {
                    all_there = false;
                    *text += &format!("    {MISSING} {error}; {FOR_ITSELF}\n");
                }
            }
        }
        if !self.python.is_empty() {
            let (sign, how) = match stage::python::is_installed(
                &self.python,
                self.interpreter.as_deref().map(Path::new),
            ) {
                true => (OK, "in a separate environment"),
                false => (
                    WARN,
                    "not installed yet: the first run installs them in a separate environment, \
                     which needs the network",
                ),
            };
            *text += &format!("    {sign} Python packages {} ({how})\n", self.python.join(", "));
        }
        if self.programs.is_empty() && !self.engine {
            *text += &format!("    {OK} only tachograph itself\n");
        }
        all_there
    }
}
