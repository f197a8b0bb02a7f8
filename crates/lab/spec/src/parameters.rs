//! `--parameter-scan` and `--parameter-list`: commands that contain `{NAME}`, repeated for each
//! value.

use crate::error::SpecError;
use crate::variables;

/// More commands than this are taken for a mistake.
const COMMANDS_MAX: usize = 100;

/// A parameter with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    name: String,
    values: Vec<String>,
}

impl Parameter {
    /// A parameter with values as text.
    ///
    /// # Errors
    /// An invalid or reserved name, or no value.
    pub fn list(name: &str, values: &str) -> Result<Parameter, SpecError> {
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(SpecError::new(format!("parameter '{name}' has an empty value"))
                .help("write its values as 1,2,4"));
        }
        Parameter::new(name, values)
    }

    /// A parameter with the numbers from `low` to `high`, `step` apart.
    ///
    /// # Errors
    /// Something that is not a number, an empty range, or an invalid name.
    pub fn scan(name: &str, low: &str, high: &str, step: &str) -> Result<Parameter, SpecError> {
        let number = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| {
                SpecError::new(format!("'{text}' is not a number"))
                    .help("write --parameter-scan NAME MIN MAX, such as workers 1 4")
            })
        };
        let (from, to, by) = (number(low)?, number(high)?, number(step)?);
        if by <= 0.0 || to < from {
            return Err(SpecError::new(format!(
                "there are no numbers from {low} to {high} in steps of {step}"
            )));
        }
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let digits = decimals(low).max(decimals(step));
        // Rounding errors must not lose the last step.
        let count = ((to - from) / by + 1e-9).floor() as usize + 1;
        if count > COMMANDS_MAX {
            return Err(too_many(count));
        }
        let values = (0..count).map(|i| format!("{:.digits$}", from + i as f64 * by)).collect();
        Parameter::new(name, values)
    }

    fn new(name: &str, values: Vec<String>) -> Result<Parameter, SpecError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(SpecError::new(format!("'{name}' is not a name for a parameter"))
                .help("use letters, digits, '-' and '_'"));
        }
        let ours = format!("${name}");
        if ["PORT", "SOCKET"].iter().any(|variable| variables::names(&ours, variable)) {
            return Err(SpecError::new(format!("{name} is a variable of tachograph's own"))
                .help("give the parameter another name"));
        }
        Ok(Parameter { name: name.to_owned(), values })
    }

    fn hole(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

fn too_many(count: usize) -> SpecError {
    SpecError::new(format!("{count} commands are too many to compare, at most {COMMANDS_MAX}"))
}

/// The values of the placeholders, such as `{workers}`, in one text.
pub type Values = Vec<(String, String)>;

/// Repeats every text for each combination of values, the last parameter varying fastest, with the
/// index of the original text.
///
/// # Errors
/// A parameter that no text uses, or too many combinations.
pub fn expand(
    texts: &[String],
    parameters: &[Parameter],
) -> Result<Vec<(usize, Values)>, SpecError> {
    for parameter in parameters {
        let hole = parameter.hole();
        if !texts.iter().any(|text| text.contains(&hole)) {
            return Err(SpecError::new(format!("no command names {hole}"))
                .help(format!("write {hole} where the value belongs")));
        }
    }
    let mut all = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let mut combinations = vec![Vec::new()];
        for parameter in parameters.iter().filter(|p| text.contains(&p.hole())) {
            combinations = combinations
                .iter()
                .flat_map(|so_far: &Values| {
                    parameter.values.iter().map(move |value| {
                        let pair = (parameter.hole(), value.clone());
                        so_far.iter().cloned().chain([pair]).collect()
                    })
                })
                .collect();
            if combinations.len() > COMMANDS_MAX {
                return Err(too_many(combinations.len()));
            }
        }
        all.extend(combinations.into_iter().map(|values| (index, values)));
    }
    if all.len() > COMMANDS_MAX {
        return Err(too_many(all.len()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_command_is_repeated_for_each_value() {
        let workers = Parameter::scan("workers", "1", "5", "2").unwrap();
        let kind = Parameter::list("kind", "sync, gthread").unwrap();
        let all = expand(&texts(&["x -w {workers} -k {kind}", "y"]), &[workers, kind]).unwrap();
        let shown: Vec<String> = all
            .iter()
            .map(|(index, values)| {
                let values: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
                format!("{index}:{}", values.join("/"))
            })
            .collect();
        assert_eq!(
            shown,
            ["0:1/sync", "0:1/gthread", "0:3/sync", "0:3/gthread", "0:5/sync", "0:5/gthread", "1:"]
        );
    }

    #[test]
    fn decimals_are_those_that_were_written() {
        let scan = Parameter::scan("x", "0.1", "0.5", "0.2").unwrap();
        assert_eq!(scan.values, ["0.1", "0.3", "0.5"]);
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        let error = |result: Result<Parameter, SpecError>| result.unwrap_err().message;
        assert_eq!(error(Parameter::scan("x", "1", "y", "1")), "'y' is not a number");
        assert_eq!(
            error(Parameter::scan("x", "2", "1", "1")),
            "there are no numbers from 2 to 1 in steps of 1"
        );
        assert_eq!(error(Parameter::list("x", "1,,2")), "parameter 'x' has an empty value");
        assert_eq!(error(Parameter::list("PORT", "1")), "PORT is a variable of tachograph's own");
        assert_eq!(error(Parameter::list("a b", "1")), "'a b' is not a name for a parameter");
        let unused = expand(&texts(&["x"]), &[Parameter::list("n", "1").unwrap()]).unwrap_err();
        assert_eq!(unused.message, "no command names {n}");
        let scan = |name: &str| Parameter::scan(name, "1", "20", "1").unwrap();
        let many = expand(&texts(&["{a} {b}"]), &[scan("a"), scan("b")]).unwrap_err();
        assert_eq!(many.message, "400 commands are too many to compare, at most 100");
    }
}
