//! Options shared by the proofs.

use base::Seed;

/// Number of runs, and the seed.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) runs: u32,
    pub(crate) seed: Seed,
}

impl Options {
    /// Parses the options; the default number is `runs`.
    pub(crate) fn parse(mut words: &[&str], runs: u32) -> Result<Options, String> {
        let mut options = Options { runs, seed: Seed(1) };
        while let [name, rest @ ..] = words {
            let [value, rest @ ..] = rest else { return Err(format!("{name} lacks its value")) };
            let unfit = || format!("{name} {value}: a whole number above 0 is wanted");
            match *name {
                "--runs" => {
                    options.runs = value.parse().ok().filter(|runs| *runs > 0).ok_or_else(unfit)?;
                }
                "--seed" => options.seed = value.parse().map_err(|_| unfit())?,
                _ => return Err(format!("{name} is no option of this task")),
            }
            words = rest;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        assert_eq!(Options::parse(&[], 2000), Ok(Options { runs: 2000, seed: Seed(1) }));
        let both = Options::parse(&["--runs", "10", "--seed", "7"], 2000);
        assert_eq!(both, Ok(Options { runs: 10, seed: Seed(7) }));
        for (words, sentence) in [
            (&["--runs"][..], "--runs lacks its value"),
            (&["--runs", "0"], "--runs 0: a whole number above 0 is wanted"),
            (&["--seed", "x"], "--seed x: a whole number above 0 is wanted"),
            (&["--what", "1"], "--what is no option of this task"),
        ] {
            assert_eq!(Options::parse(words, 2000), Err(sentence.to_owned()));
        }
    }
}
