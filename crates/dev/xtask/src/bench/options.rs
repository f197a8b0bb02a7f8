//! Options of the bench.

use base::Seed;

use super::lines::LINES;

/// Options of the bench.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) rounds: u32,
    /// Duration of one client's turn.
    pub(super) seconds: f64,
    pub(super) seed: Seed,
    /// The lines; all of them if empty.
    only: Vec<String>,
}

impl Options {
    pub(super) fn parse(mut words: &[&str]) -> Result<Options, String> {
        let mut options = Options { rounds: 5, seconds: 1.0, seed: Seed(1), only: Vec::new() };
        while let [name, rest @ ..] = words {
            let [value, rest @ ..] = rest else { return Err(format!("{name} lacks its value")) };
            let unfit = |wanted: &str| format!("{name} {value}: {wanted} is wanted");
            match *name {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|n| (1..=1000).contains(n));
                    options.rounds =
                        rounds.ok_or_else(|| unfit("a whole number from 1 to 1000"))?;
                }
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|s| (0.2..=60.0).contains(s));
                    options.seconds = seconds.ok_or_else(|| unfit("a number from 0.2 to 60"))?;
                }
                "--seed" => options.seed = value.parse().map_err(|_| unfit("a whole number"))?,
                "--only" if LINES.iter().any(|line| line.id == *value) => {
                    options.only.push((*value).to_owned());
                }
                "--only" => {
                    let ids: Vec<&str> = LINES.iter().map(|line| line.id).collect();
                    return Err(format!(
                        "--only {value}: there is no such line; there are {}",
                        ids.join(", ")
                    ));
                }
                _ => return Err(format!("{name} is no option of the bench")),
            }
            words = rest;
        }
        Ok(options)
    }

    pub(super) fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        let words = [
            "--only",
            "tcp-64",
            "--rounds",
            "7",
            "--only",
            "unix-64",
            "--seconds",
            "1.5",
            "--seed",
            "9",
        ];
        let options = Options::parse(&words).unwrap();
        assert_eq!((options.rounds, options.seconds, options.seed), (7, 1.5, Seed(9)));
        assert!(options.wants("tcp-64") && options.wants("unix-64") && !options.wants("bulk-tcp"));
        assert!(Options::parse(&[]).unwrap().wants("bulk-tcp"));
        for (words, sentence) in [
            (["--rounds", "0"], "--rounds 0: a whole number from 1 to 1000 is wanted"),
            (["--seconds", "0"], "--seconds 0: a number from 0.2 to 60 is wanted"),
            (["--seed", "x"], "--seed x: a whole number is wanted"),
            (["--what", "1"], "--what is no option of the bench"),
        ] {
            assert_eq!(Options::parse(&words), Err(sentence.to_owned()));
        }
        assert_eq!(Options::parse(&["--seed"]), Err("--seed lacks its value".to_owned()));
        let unknown = Options::parse(&["--only", "x"]).unwrap_err();
        assert!(
            unknown.starts_with("--only x: there is no such line; there are tcp-64, unix-64,"),
            "{unknown}"
        );
    }
}
