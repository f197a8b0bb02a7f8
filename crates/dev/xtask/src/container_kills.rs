//! `prove container-kills`: kill −9 at random moments of runs with containers.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::kills::{Victim, kill_often};
use crate::options::Options;
use crate::{binary, task};

/// Kills runs with containers and looks for leftovers, including at the engine.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove container-kills", Options::parse(words, 30), |options| {
        let left = left_at_the_engine()?;
        match left.is_empty() {
            true => Ok(kill_often(options, &Containers)? == 0),
            false => {
                Err(format!("the engine has containers or networks of ours already: {left:?}"))
            }
        }
    })
}

struct Containers;

impl Victim for Containers {
    fn arguments(&self, folder: &Path) -> Result<Vec<String>, String> {
        let tachograph = binary::path()?;
        let programs = tachograph.parent().unwrap_or(Path::new("/"));
        let container = format!(
            "{{ command = \"$TACHOGRAPH serve-fixture --listen $LISTEN\", read_only = [\"{}\"], \
             volumes = [\"$DIR\"], network = \"$NETWORK\", publish = \"$PORT:8000\", ready = \"http://$REACH/\" }}",
            programs.display()
        );
        let text = format!(
            "[experiment]\nname = \"containers\"\ntitle = \"Containers\"\nquestion = \"Which?\"\noffers = [\"closed\"]\n\
             [stack.app]\ntarget = \"http://$REACH/\"\ncontainer = {container}\n\
             [[part]]\nname = \"all\"\nquestion = \"Which?\"\n\
             [[part.variant]]\nname = \"$WAY\"\nstack = \"app\"\n[part.variant.each.WAY]\n\
             forwarded = {{ NETWORK = \"bridge\", LISTEN = \"tcp://0.0.0.0:8000\", REACH = \"127.0.0.1:$PORT\" }}\n\
             own = {{ NETWORK = \"own\", LISTEN = \"tcp://0.0.0.0:8000\", REACH = \"$ADDRESS:8000\" }}\n"
        );
        let file = folder.join("containers.toml");
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        Ok(["run", "--quick", &file.display().to_string()].map(str::to_owned).to_vec())
    }

    fn left(&self) -> Result<Vec<String>, String> {
        left_at_the_engine()
    }
}

/// Containers and networks with our label at the engine in `DOCKER_HOST`.
fn left_at_the_engine() -> Result<Vec<String>, String> {
    let host = std::env::var("DOCKER_HOST").unwrap_or("unix:///var/run/docker.sock".to_owned());
    let socket = host.strip_prefix("unix://").ok_or("DOCKER_HOST is no Unix socket")?;
    let label = "filters=%7B%22label%22%3A%5B%22tachograph.run-dir%22%5D%7D";
    let mut left = Vec::new();
    for path in ["containers/json?all=1&", "networks?"] {
        let output = Command::new("curl")
            .args(["-fsS", "--max-time", "20", "--unix-socket", socket])
            .arg(format!("http://localhost/{path}{label}"))
            .output()
            .map_err(|error| format!("curl: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "no engine answers: {}; start this by scripts/with-docker.sh",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        let list: Vec<serde_json::Value> =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        left.extend(list.iter().map(|entry| format!("{path} {}", entry["Id"])));
    }
    Ok(left)
}
