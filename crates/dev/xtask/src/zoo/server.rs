//! The servers as commands: a thread per connection, or asyncio.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use base::Seed;
use zoo::Behaviour;

/// How to start a server; its port is to be put in place of `$PORT`.
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Program {
    /// Writes what the server needs into the folder. `name` distinguishes servers.
    pub(crate) fn new(
        behaviour: &Behaviour,
        asyncio: bool,
        folder: &Path,
        name: &str,
    ) -> Result<Program, String> {
        let text = |error: std::io::Error| error.to_string();
        let file = folder.join(format!("{name}.json"));
        let json = serde_json::to_string(behaviour).map_err(|error| error.to_string())?;
        std::fs::write(&file, json).map_err(text)?;
        let file = file.display().to_string();
        if asyncio {
            let source = folder.join("server.py");
            std::fs::write(&source, zoo::ASYNCIO_SERVER).map_err(text)?;
            let arguments = vec![source.display().to_string(), "$PORT".to_owned(), file];
            return Ok(Program { program: "python3".into(), arguments });
        }
        let program = std::env::current_exe().map_err(text)?;
        Ok(Program { program, arguments: vec!["zoo-server".to_owned(), "$PORT".to_owned(), file] })
    }

    /// The command for `tachograph compare`, whose words a shell would read alike.
    pub(crate) fn command(&self) -> String {
        let quoted = |word: &str| match word {
            "$PORT" => word.to_owned(),
            _ => format!("'{word}'"),
        };
        let program = quoted(&self.program.display().to_string());
        let arguments = self.arguments.iter().map(|word| quoted(word));
        [program].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
    }
}

/// Serves until it is ended.
pub(crate) fn serve(port: u16, file: &Path) -> Result<(), String> {
    let unfit = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| unfit(&error))?;
    let behaviour: Behaviour = serde_json::from_str(&text).map_err(|error| unfit(&error))?;
    let listener = TcpListener::bind(("127.0.0.1", port))
        .map_err(|error| format!("127.0.0.1:{port}: {error}"))?;
    // A new seed for every start, because the requests of a real server vary too.
    zoo::serve(&listener, behaviour, Seed::from_time()).map_err(|error| error.to_string())
}
