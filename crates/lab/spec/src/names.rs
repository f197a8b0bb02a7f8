//! Default names of compared commands: short, but distinct.

use crate::variables;

/// A name for each command, unique and not empty.
///
/// `tcp` and `unix` if the commands differ only in where they listen; the programs if these differ;
/// else the words that differ, with the option before them; else the whole command. Equal names are
/// numbered.
pub(crate) fn default_names(commands: &[String]) -> Vec<String> {
    if let Some(names) = of_urls(commands) {
        return names;
    }
    let words: Vec<Vec<String>> = commands.iter().map(|command| split(command)).collect();
    let candidates = [
        transports(&words),
        words.iter().map(|words| program(words)).collect(),
        differing_words(&words),
        commands.iter().map(|command| command.trim().to_owned()).collect(),
    ];
    let good = |names: &&Vec<String>| {
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        sorted.dedup();
        sorted.len() == commands.len() && names.iter().all(|name| !name.trim().is_empty())
    };
    match candidates.iter().find(good) {
        Some(names) => names.clone(),
        None => numbered(&words),
    }
}

/// URLs without what they have in common: the scheme and an empty path.
fn of_urls(commands: &[String]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for command in commands {
        let name = command.trim().strip_prefix("http://")?;
        let name = name.strip_suffix('/').unwrap_or(name).to_owned();
        let count = names.iter().filter(|other| **other == name).count();
        names.push(if count > 0 { format!("{name} ({})", count + 1) } else { name });
    }
    Some(names)
}

/// The name of the program that a command starts.
pub(crate) fn program_of(command: &str) -> String {
    program(&split(command))
}

fn split(command: &str) -> Vec<String> {
    shell_words::split(command)
        .unwrap_or_else(|_| command.split_whitespace().map(str::to_owned).collect())
}

/// `tcp` or `unix` for each, if the commands differ only in the words that name them.
fn transports(commands: &[Vec<String>]) -> Vec<String> {
    let listens =
        |word: &String| variables::names(word, "PORT") || variables::names(word, "SOCKET");
    let rest = |words: &[String]| -> Vec<String> {
        words.iter().filter(|word| !listens(word)).cloned().collect()
    };
    let alike = commands.windows(2).all(|pair| rest(&pair[0]) == rest(&pair[1]));
    let transport = |words: &Vec<String>| {
        let unix = words.iter().any(|word| variables::names(word, "SOCKET"));
        if unix { "unix" } else { "tcp" }.to_owned()
    };
    if alike { commands.iter().map(transport).collect() } else { Vec::new() }
}

/// The program's name without its folder; the module in `python -m NAME`; NAME in `env A=b NAME`.
fn program(words: &[String]) -> String {
    let is_assignment = |word: &String| word.contains('=') && !word.starts_with('-');
    let mut rest = words
        .iter()
        .skip_while(|word| is_assignment(word) || ["env", "exec"].contains(&word.as_str()));
    let name = rest.next().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    if name.starts_with("python") {
        return python_program(rest).unwrap_or(name).to_owned();
    }
    name.to_owned()
}

/// The script or module that Python runs, unless that is code on the command line.
fn python_program<'w>(mut words: impl Iterator<Item = &'w String>) -> Option<&'w str> {
    loop {
        match words.next()?.as_str() {
            "-m" => return words.next().map(String::as_str),
            "-c" | "-" => return None,
            "-W" | "-X" => _ = words.next()?,
            option if option.starts_with('-') => {}
            script => return script.rsplit('/').next(),
        }
    }
}

/// The words between the common prefix and the common suffix of all commands.
fn differing_words(commands: &[Vec<String>]) -> Vec<String> {
    let shortest = commands.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &dyn Fn(&Vec<String>) -> usize| {
        commands.windows(2).all(|pair| pair[0][at(&pair[0])] == pair[1][at(&pair[1])])
    };
    let mut start = (0..shortest).take_while(|i| same(&|_| *i)).count();
    let end = (0..shortest - start).take_while(|i| same(&|words| words.len() - 1 - i)).count();
    let option_before = start > 0 && commands.iter().all(|words| words[start - 1].starts_with('-'));
    let empty = commands.iter().any(|words| words.len() - end == start);
    if option_before && !empty {
        start -= 1;
    }
    let name = |words: &Vec<String>| match &words[start..words.len() - end] {
        [] => program(words),
        middle => middle.join(" "),
    };
    commands.iter().map(name).collect()
}

fn numbered(commands: &[Vec<String>]) -> Vec<String> {
    let name = |(i, words): (usize, &Vec<String>)| format!("{} #{}", program(words), i + 1);
    commands.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(commands: &[&str]) -> Vec<String> {
        default_names(&commands.iter().map(|&command| command.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_as_short_as_tells_the_commands_apart() {
        let cases: [(&[&str], &[&str]); 13] = [
            (
                &["gunicorn -b 127.0.0.1:$PORT s:app", "gunicorn -b unix:$SOCKET s:app"],
                &["tcp", "unix"],
            ),
            (
                &["gunicorn -b 127.0.0.1:$PORT s:app", "/usr/bin/uvicorn --uds $SOCKET s:app"],
                &["gunicorn", "uvicorn"],
            ),
            (&["./old/app $PORT", "./new/app $PORT"], &["./old/app", "./new/app"]),
            (&["app -w 1 $PORT", "app -w 2 $PORT"], &["-w 1", "-w 2"]),
            (&["app $PORT", "app $PORT --fast"], &["app", "--fast"]),
            (&["python3 -m gunicorn a:b", "python3 -m waitress a:b"], &["gunicorn", "waitress"]),
            (&["python3 a.py $PORT", "python3 b.py $PORT"], &["a.py", "b.py"]),
            (&["python3 s.py $PORT", "python3 -O s.py $PORT"], &["s.py", "-O"]),
            (&["python3 -u -X dev x/a.py $PORT", "python3 b.py $PORT"], &["a.py", "b.py"]),
            (&["python3 -c 'serve($PORT)'", "app $PORT"], &["python3", "app"]),
            (&["A=1 env B=2 one $PORT", "two $PORT"], &["one", "two"]),
            (&["app $PORT", "app $PORT"], &["app #1", "app #2"]),
            (
                &["app -b $PORT x", "app -b $SOCKET x", "app -b $PORT y"],
                &["-b $PORT x", "-b $SOCKET x", "-b $PORT y"],
            ),
        ];
        for (commands, expected) in cases {
            assert_eq!(names(commands), expected, "{commands:?}");
        }
    }

    proptest! {
        #[test]
        fn names_are_unique_and_never_empty(
            commands in prop::collection::vec("[a-b$PORT '\"-]{1,12}|.{1,20}", 2..5)
        ) {
            let names = default_names(&commands);
            prop_assert_eq!(names.len(), commands.len());
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            prop_assert_eq!(unique.len(), names.len());
            prop_assert!(names.iter().all(|name| !name.trim().is_empty()));
        }
    }
}
