//! Which parts can run on several machines; the others are refused with a sentence.

use crate::error::SpecError;
use crate::load::{Exchange, Load};
use crate::plan::{Layout, Part, ReadyCheck, ServedBy, Stack, Variant};
use crate::target::{Endpoint, Target};
use crate::variables;

/// Checks a load from these machines.
///
/// # Errors
/// If a machine is named twice, or has no connection.
pub fn check_clients(from: &[String], load: &Load) -> Result<(), SpecError> {
    let checked = check_names(from).and_then(|()| check_shares(from, load));
    checked.map_err(|refusal| SpecError::new(refusal.message).help(refusal.help))
}

/// Why a part cannot run on its machines, and what to do.
pub(crate) struct PlacementRefusal {
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

/// Checks that a variant of a part can run on the part's machines.
///
/// # Errors
/// What it needs of this machine.
pub fn check_placement(part: &Part, variant: &Variant) -> Result<(), SpecError> {
    let checked = check_variant(part, variant);
    checked.map_err(|refusal| SpecError::new(refusal.message).help(refusal.help))
}

/// Checks a part whose stacks or clients are on other machines.
pub(crate) fn check(part: &Part) -> Result<(), PlacementRefusal> {
    part.variants.iter().try_for_each(|variant| check_variant(part, variant))
}

fn refuse(message: impl Into<String>, help: &'static str) -> Result<(), PlacementRefusal> {
    Err(PlacementRefusal { message: message.into(), help })
}

fn check_names(from: &[String]) -> Result<(), PlacementRefusal> {
    match from.iter().enumerate().find(|(i, host)| from[..*i].contains(host)) {
        Some((_, twice)) => {
            refuse(format!("the client {twice} is named twice"), "name each client once")
        }
        None => Ok(()),
    }
}

/// Each client needs a connection.
fn check_shares(from: &[String], load: &Load) -> Result<(), PlacementRefusal> {
    let connections = load.connections / load.streams.max(1);
    if from.len() <= connections as usize {
        return Ok(());
    }
    refuse(
        format!("{connections} connections are too few for {} clients", from.len()),
        "each client needs at least one connection: use more, or fewer clients",
    )
}

fn check_variant(part: &Part, variant: &Variant) -> Result<(), PlacementRefusal> {
    let (name, from) = (&variant.name, part.from.as_slice());
    if variant.on.is_none() && from.is_empty() {
        return Ok(());
    }
    if part.layout == Layout::Same && variant.is_apart(from) {
        let help = "choose the layout split or free";
        return refuse("client and servers on different machines cannot share a CPU", help);
    }
    check_names(from)?;
    check_shares(from, &variant.load)?;
    if from.len() > 1 && matches!(variant.load.exchange, Exchange::Lines(_)) {
        return refuse(
            format!("'{name}': several clients would send lines of the same series"),
            "use one client for exchange = \"lines\"",
        );
    }
    if !variant.actions.is_empty() {
        return refuse(
            format!("'{name}': actions work only where client and stack are on this machine"),
            "remove on, from or the actions",
        );
    }
    if let Some(host) = &variant.on {
        check_far_stack(variant, host)?;
    }
    if variant.is_apart(from) && !variant.stack.processes.is_empty() {
        check_apart(variant)?;
    }
    Ok(())
}

fn check_far_stack(variant: &Variant, host: &str) -> Result<(), PlacementRefusal> {
    let (name, stack) = (&variant.name, &variant.stack);
    if stack.processes.is_empty() {
        return refuse(
            format!("'{name}' is not started by tachograph, so it cannot be started on {host}"),
            "give its URL without a machine",
        );
    }
    if stack.needs_engine {
        return refuse(
            format!("'{name}' needs a container engine, which works only on this machine"),
            "start tachograph on that machine",
        );
    }
    Ok(())
}

/// A stack that clients on other machines load.
fn check_apart(variant: &Variant) -> Result<(), PlacementRefusal> {
    let name = &variant.name;
    if variant.stack.processes.iter().any(|process| process.beside_client) {
        return refuse(
            format!("'{name}': a process cannot run beside a client on another machine"),
            "remove cpus = \"client\"",
        );
    }
    let shape = variables::replace(&variant.target, |variable| match variable {
        "HOST" => Some("host".into()),
        _ if variable.starts_with("PORT") => Some("1".into()),
        _ => Some("/path".into()),
    });
    // A target that cannot be parsed is refused elsewhere.
    let Ok(target) = Target::parse(&shape) else { return Ok(()) };
    match target.endpoint() {
        Endpoint::Tcp { host, .. } | Endpoint::Udp { host, .. } if is_loopback(host) => refuse(
            format!("'{name}': {} cannot be reached from another machine", variant.target),
            "write $HOST instead of the loopback address, in the target and in the command",
        ),
        Endpoint::Tcp { .. } | Endpoint::Udp { .. } => Ok(()),
        _ => refuse(
            format!("'{name}': a Unix socket cannot be reached from another machine"),
            "run the client on the server's machine too, with the same name for --on and --from",
        ),
    }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

impl Variant {
    /// Whether any text of it names `$FILES`.
    pub fn uses_files(&self) -> bool {
        let Stack { files, processes, .. } = &self.stack;
        let mut texts: Vec<&str> = vec![&self.target];
        texts.extend(files.iter().map(|file| file.text.as_str()));
        for process in processes {
            texts.push(&process.command);
            texts.extend(process.env.values().map(String::as_str));
            texts.extend(process.ready.iter().map(|ready| match ready {
                ReadyCheck::Port(text)
                | ReadyCheck::Socket(text)
                | ReadyCheck::Http(text)
                | ReadyCheck::File(text)
                | ReadyCheck::Adopted(text) => text.as_str(),
            }));
        }
        texts.extend(self.served_by.as_ref().and_then(|by| match by {
            ServedBy::LogLines { path, .. }
            | ServedBy::FileSize(path)
            | ServedBy::CounterFile { path, .. } => Some(path.as_str()),
            _ => None,
        }));
        texts.iter().any(|text| variables::names(text, "FILES"))
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_plan;

    fn experiment(keys: &str, rest: &str) -> String {
        format!(
            "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n{keys}\n\
             [stack.s]\nprocess = {{ command = \"server $HOST:$PORT\" }}\ntarget = \"http://$HOST:$PORT/\"\n\
             [[variant]]\nname = \"a\"\nstack = \"s\"\n[[variant]]\nname = \"b\"\nstack = \"s\"\n{rest}"
        )
    }

    #[test]
    fn experiments_parts_and_variants_name_their_machines() {
        let keys = "on = \"server\"\naddress = \"10.0.0.2\"\nfrom = [\"c1\", \"c2\"]";
        let plan = parse_plan(&experiment(keys, "on = \"here\"\n"), "x.toml").unwrap();
        let part = &plan.parts[0];
        let on = |index: usize| part.variants[index].on.as_deref();
        assert_eq!((on(0), on(1)), (Some("server"), None));
        assert_eq!(part.variants[0].address.as_deref(), Some("10.0.0.2"));
        assert_eq!(part.machines(), ["server", "c1", "c2"]);
        let own = "[[part]]\nname = \"p\"\nquestion = \"q\"\non = \"other\"\nfrom = [\"other\"]\n";
        let plan = parse_plan(&experiment(keys, own), "x.toml").unwrap();
        let part = &plan.parts[0];
        assert_eq!(part.machines(), ["other"]);
        assert!(!part.variants[0].is_apart(&part.from));
    }

    #[test]
    fn a_variant_that_names_its_files_is_known() {
        let uses = |rest: &str| {
            parse_plan(&experiment("", rest), "x.toml").unwrap().parts[0].variants[1].uses_files()
        };
        assert!(!uses("process = { command = \"server $FILESYSTEM\" }\n"));
        assert!(uses("process = { command = \"server --chdir ${FILES}/apps\" }\n"));
        assert!(uses("served_by = { counter_file = \"$FILES/tally\" }\n"));
    }

    #[test]
    fn what_needs_this_machine_is_refused_elsewhere() {
        let on = "on = \"server\"";
        for (keys, rest, message) in [
            ("layout = \"same\"\non = \"server\"", "", "cannot share a CPU"),
            (
                on,
                "target = \"http://127.0.0.1:$PORT/\"\n",
                "cannot be reached from another machine",
            ),
            (on, "target = \"http://unix:$SOCKET:/\"\n", "a Unix socket cannot be reached"),
            (
                on,
                "process = { command = \"s\", cpus = \"client\" }\n",
                "cannot run beside a client",
            ),
        ] {
            let error = parse_plan(&experiment(keys, rest), "x.toml").unwrap_err().to_string();
            assert!(error.contains(message), "{message} is not in {error}");
        }
    }
}
