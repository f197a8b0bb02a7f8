//! `tachograph doctor --on HOST`: the doctor, run on another machine over ssh.

use std::io::Read as _;
use std::time::Duration;

use far::reach::{Channel, Host, Options};

use crate::failure::{Failure, Outcome, Status};
use crate::output;

/// How long the far doctor may take to end after its last word.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(host: &str, experiment: Option<&str>) -> Outcome {
    let host: Host = host.parse()?;
    let mut options = Options::from_environment(env!("CARGO_PKG_VERSION"))?;
    options.words = vec!["doctor".to_owned()];
    options.words.extend(experiment.map(str::to_owned));
    let Channel { mut reader, writer, facts, mut ssh } = far::reach::connect(&host, &options)?;
    drop(writer);
    let copied = match facts.copied_bytes {
        0 => "tachograph was there".to_owned(),
        bytes => format!("copied tachograph ({})", base::Bytes(bytes)),
    };
    output::print(&format!(
        "{host}, reached by ssh in {} ms; {copied}\n\n",
        facts.took.as_millis()
    ))?;
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    output::print(&String::from_utf8_lossy(&text))?;
    match ssh.wait(PATIENCE).and_then(|status| status.code()) {
        Some(0) => Ok(Status::Well),
        Some(1) => Ok(Status::VerdictFailed),
        // The far doctor printed its own error.
        Some(2) => {
            let said = ssh.last_words();
            let said = said.trim();
            Err(Failure::new(said.strip_prefix("error: ").unwrap_or(said)))
        }
        _ => Err(ssh.why_ended().into()),
    }
}
