//! From a command line to the arguments that are executed.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::vars::Variables;

/// Words that only a shell understands at the start of a command and that cannot follow `exec`.
const SHELL_WORDS: &[&str] = &[
    "!", ".", "case", "cd", "exec", "export", "for", "if", "set", "source", "trap", "ulimit",
    "umask", "unset", "until", "while", "{",
];

/// What is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) argv: Vec<String>,
    /// The program whose absence can be noticed before starting.
    pub(crate) program: Option<String>,
    /// Whether a shell stays at the head of the process group.
    pub(crate) shell_stays: bool,
}

impl Invocation {
    /// Splits a command as a shell does. A command that needs a shell is given to `sh -c`, with
    /// `exec` if it is a single program.
    pub(crate) fn parse(command: &str, vars: &Variables) -> Result<Invocation, String> {
        let words =
            shell_words::split(command).map_err(|_| "a quotation mark is not closed".to_owned())?;
        let Some(first) = words.first() else {
            return Err("it is empty".to_owned());
        };
        let syntax = scan(command, vars);
        let builtin = SHELL_WORDS.contains(&first.as_str());
        if !syntax.needs_shell && !builtin {
            return Ok(without_shell(&words, vars));
        }
        let builtin = builtin || is_assignment(first);
        // Values that a shell would split or interpret are left to the shell's own expansion: they
        // are in the environment too.
        let text = vars.expand_if(command, is_plain);
        let stays = syntax.is_compound || builtin;
        let text = if stays { text } else { format!("exec {}", text.trim_start()) };
        Ok(Invocation {
            argv: vec!["sh".to_owned(), "-c".to_owned(), text],
            program: (!stays && !first.contains('$')).then(|| first.clone()),
            shell_stays: stays,
        })
    }
}

fn without_shell(words: &[String], vars: &Variables) -> Invocation {
    let words: Vec<String> = words.iter().map(|word| vars.expand(word)).collect();
    let program = words.iter().find(|word| !is_assignment(word)).cloned();
    let mut argv = words;
    if argv.first().is_some_and(|word| is_assignment(word)) {
        argv.insert(0, "env".to_owned());
    }
    Invocation { argv, program, shell_stays: false }
}

/// The syntax of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Syntax {
    needs_shell: bool,
    /// Several commands: `exec` would lose all but the first.
    is_compound: bool,
}

fn scan(command: &str, vars: &Variables) -> Syntax {
    let mut syntax = Syntax::default();
    let mut quote = None;
    let mut before = ' ';
    let mut characters = command.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => {
                // An escaped dollar must reach the program; only a shell handles that.
                syntax.needs_shell |= matches!(characters.next(), Some((_, '$' | '`')));
            }
            (_, '$') => syntax.needs_shell |= !vars.is_reference(&command[at..]),
            (_, '`') => syntax.needs_shell = true,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '&') if matches!(before, '>' | '<') => syntax.needs_shell = true,
            (None, '|' | '&' | ';' | '(' | ')' | '\n') => {
                syntax = Syntax { needs_shell: true, is_compound: true };
            }
            (None, '<' | '>' | '*' | '?' | '[') => syntax.needs_shell = true,
            (None, '~' | '#') if before.is_whitespace() => syntax.needs_shell = true,
            (None, _) => {}
        }
        before = c;
    }
    syntax
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c))
}

/// The path of a program: from `PATH`, or relative to `working_dir` if its name contains a slash.
pub(crate) fn find(program: &str, path: &str, working_dir: Option<&Path>) -> Option<PathBuf> {
    let is_executable = |file: &Path| {
        fs::metadata(file)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let base = working_dir.map(Path::to_owned).or_else(|| env::current_dir().ok());
    let base = base.unwrap_or_default();
    if program.contains('/') {
        let file = base.join(program);
        return is_executable(&file).then_some(file);
    }
    env::split_paths(path).map(|dir| base.join(dir).join(program)).find(|file| is_executable(file))
}

/// Folders of server programs that `PATH` often lacks: the system's, and that of the newest
/// PostgreSQL.
pub(crate) fn server_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/local/sbin"), PathBuf::from("/usr/sbin")];
    let version = |dir: &PathBuf| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed.map(|entry| entry.path()).max_by_key(version);
    folders.extend(newest.map(|dir| dir.join("bin")));
    folders
}

/// Where a stack would find a program or file that it needs.
pub fn find_need(need: &str) -> Option<PathBuf> {
    // A path can name any file, such as a server module.
    if need.starts_with('/') {
        return Some(PathBuf::from(need)).filter(|file| file.exists());
    }
    find(need, &with_server_folders(&env::var("PATH").unwrap_or_default()), None)
}

/// A search path with the folders of servers appended.
pub(crate) fn with_server_folders(path: &str) -> String {
    let mut folders: Vec<PathBuf> = env::split_paths(path).collect();
    folders.extend(server_folders());
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let shown = folders.iter().map(|folder| folder.to_string_lossy());
    shown.collect::<Vec<_>>().join(":")
}

/// How to install a well-known program on Debian or Ubuntu.
pub(crate) fn install_hint(program: &str) -> Option<&'static str> {
    let name = program.rsplit('/').next().unwrap_or(program);
    Some(match name {
        "nginx" => "apt install nginx",
        "apache2" | "apachectl" | "httpd" => "apt install apache2",
        "uwsgi" => "apt install uwsgi uwsgi-plugin-python3",
        "docker" => "apt install docker.io",
        "postgres" | "initdb" | "pg_ctl" => "apt install postgresql",
        "haproxy" => "apt install haproxy",
        "socat" => "apt install socat",
        "python" | "python3" => "apt install python3",
        "gunicorn" => "pip install gunicorn",
        "uvicorn" => "pip install uvicorn",
        "flask" => "pip install flask",
        "node" => "apt install nodejs",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(command: &str) -> Invocation {
        let mut vars = Variables::default();
        vars.set("PORT", "8000");
        vars.set("FILES", "/my files");
        Invocation::parse(command, &vars).unwrap()
    }

    #[test]
    fn plain_commands_are_split_and_need_no_shell() {
        for (command, argv) in [
            (
                "gunicorn -b 127.0.0.1:$PORT app:x",
                &["gunicorn", "-b", "127.0.0.1:8000", "app:x"][..],
            ),
            ("python3 $FILES/a.py", &["python3", "/my files/a.py"]),
            ("x 'a b' \"c $PORT\" ${PORT}", &["x", "a b", "c 8000", "8000"]),
            ("x 'a|b;$HOME'", &["x", "a|b;$HOME"]),
            ("nginx -g 'daemon off;'", &["nginx", "-g", "daemon off;"]),
        ] {
            let invocation = parse(command);
            assert_eq!(invocation.argv, argv, "{command}");
            assert_eq!(invocation.program.as_deref(), Some(argv[0]));
            assert!(!invocation.shell_stays);
        }
    }

    #[test]
    fn a_command_that_needs_a_shell_replaces_it_if_possible() {
        for (command, text, stays) in [
            ("x --home $HOME", "exec x --home $HOME", false),
            ("x $PORT > /dev/null 2>&1", "exec x 8000 > /dev/null 2>&1", false),
            ("x $FILES/a *.conf", "exec x $FILES/a *.conf", false),
            ("x \\$PORT", "exec x \\$PORT", false),
            ("a && b", "a && b", true),
            ("a | b", "a | b", true),
            ("FOO=1 x *", "FOO=1 x *", true),
            ("exec x", "exec x", true),
            ("cd / ; x", "cd / ; x", true),
        ] {
            let invocation = parse(command);
            assert_eq!(invocation.argv, ["sh", "-c", text], "{command}");
            assert_eq!(invocation.shell_stays, stays, "{command}");
        }
    }

    #[test]
    fn assignments_before_a_command_need_no_shell() {
        let invocation = parse("A=1 B='x y' app $PORT");
        assert_eq!(invocation.argv, ["env", "A=1", "B=x y", "app", "8000"]);
        assert_eq!(invocation.program.as_deref(), Some("app"));
        assert!(!invocation.shell_stays);
    }

    #[test]
    fn a_command_that_cannot_be_read_says_why() {
        let vars = Variables::default();
        assert_eq!(Invocation::parse("  ", &vars).unwrap_err(), "it is empty");
        assert_eq!(Invocation::parse("x 'y", &vars).unwrap_err(), "a quotation mark is not closed");
    }

    #[test]
    fn programs_are_found_where_they_would_be_executed() {
        assert_eq!(find("sh", "/nowhere:/bin", None), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", "/nowhere", None), None);
        assert_eq!(find("./sh", "", Some(Path::new("/bin"))), Some(PathBuf::from("/bin/./sh")));
        assert_eq!(find("/etc/passwd", "", None), None);
        assert_eq!(install_hint("/usr/sbin/nginx"), Some("apt install nginx"));
        assert_eq!(install_hint("my-server"), None);
    }

    #[test]
    fn servers_are_found_where_a_persons_path_does_not_look() {
        let path = with_server_folders("/home/me/bin:/usr/sbin:/bin");
        assert!(path.starts_with("/home/me/bin:/usr/sbin:/bin:/usr/local/sbin"), "{path}");
        assert_eq!(path.matches("/usr/sbin").count(), 1, "{path}");
        assert_eq!(find_need("/no/such/module.so"), None);
        assert_eq!(find_need("/etc/passwd"), Some(PathBuf::from("/etc/passwd")));
    }
}
