//! Functions that change names.

use super::FunctionResult;
use super::arguments::{Arguments, NodeOrTag};
use crate::parse::first_path;
use crate::{Aggregation, Series};

pub(super) fn alias(arguments: &mut Arguments<'_>) -> FunctionResult {
    let name = arguments.required_text(1)?;
    named(arguments, |_| name.clone())
}

pub(super) fn named(
    arguments: &mut Arguments<'_>,
    of: impl Fn(&Series) -> String,
) -> FunctionResult {
    let mut found = arguments.series(0)?;
    for series in &mut found {
        series.name = of(series);
    }
    Ok(found)
}

pub(super) fn alias_by_node(arguments: &mut Arguments<'_>) -> FunctionResult {
    let nodes = arguments.nodes(1)?;
    named(arguments, |series| key(series, &nodes))
}

pub(super) fn alias_by_metric(arguments: &mut Arguments<'_>) -> FunctionResult {
    named(arguments, |series| {
        let path = path_of(series);
        path.rsplit('.').next().unwrap_or_default().split(',').next().unwrap_or_default().to_owned()
    })
}

pub(super) fn alias_sub(arguments: &mut Arguments<'_>) -> FunctionResult {
    let search = arguments.regex(1)?;
    let replace = replacement(&arguments.required_text(2)?);
    named(arguments, |series| search.replace_all(&series.name, replace.as_str()).into_owned())
}

pub(super) fn substr(arguments: &mut Arguments<'_>) -> FunctionResult {
    let start = arguments.number_or(1, 0.0)? as i64;
    let stop = arguments.number_or(2, 0.0)? as i64;
    named(arguments, |series| {
        let name = &series.name;
        let left = name.rfind('(').map_or(0, |at| at + 1);
        let right = name.find(')').filter(|right| *right >= left).unwrap_or(name.len());
        let nodes: Vec<&str> = name[left..right].split('.').collect();
        let count = nodes.len() as i64;
        let place = |n: i64| (if n < 0 { n + count } else { n }).clamp(0, count) as usize;
        let until = if stop == 0 { nodes.len() } else { place(stop) };
        let kept = nodes.get(place(start)..until).unwrap_or_default().join(".");
        kept.split(',').next().unwrap_or_default().to_owned()
    })
}

/// Python's `\1` and `\g<name>` as the crate `regex` writes them.
fn replacement(python: &str) -> String {
    let mut text = String::new();
    let mut characters = python.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, characters.peek().copied()) {
            ('$', _) => text.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                let mut number = String::new();
                while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                    number.push(digit);
                }
                text.push_str(&format!("${{{number}}}"));
            }
            ('\\', Some('g')) => {
                characters.next();
                characters.next_if_eq(&'<');
                let mut name = String::new();
                for c in characters.by_ref() {
                    if c == '>' {
                        break;
                    }
                    name.push(c);
                }
                text.push_str(&format!("${{{name}}}"));
            }
            ('\\', Some('\\')) => {
                characters.next();
                text.push('\\');
            }
            (c, _) => text.push(c),
        }
    }
    text
}

/// The path of which nodes are taken: the first one inside a function's name.
fn path_of(series: &Series) -> String {
    let inner = series.name.ends_with(')').then(|| first_path(&series.name)).flatten();
    let path = inner.unwrap_or_else(|| series.name.clone());
    path.split(';').next().unwrap_or_default().to_owned()
}

/// Nodes of a series' path and values of its tags, joined by dots.
pub(super) fn key(series: &Series, nodes: &[NodeOrTag]) -> String {
    let path = path_of(series);
    let parts: Vec<&str> = path.split('.').collect();
    let part = |node: &NodeOrTag| match node {
        NodeOrTag::Node(n) => {
            let place = if *n < 0 { n + parts.len() as i64 } else { *n };
            let part = usize::try_from(place).ok().and_then(|place| parts.get(place));
            part.map_or_else(
                || series.tags.get(&n.to_string()).cloned().unwrap_or_default(),
                |part| (*part).to_owned(),
            )
        }
        NodeOrTag::Tag(tag) => series.tags.get(tag).cloned().unwrap_or_default(),
    };
    nodes.iter().map(part).collect::<Vec<_>>().join(".")
}

pub(super) fn cacti_style(arguments: &mut Arguments<'_>) -> FunctionResult {
    let system = arguments.text(1)?;
    let units = arguments.text(2)?;
    if system.as_deref().is_some_and(|system| !matches!(system, "si" | "binary")) {
        return Err(arguments.wrong("'system' must be \"si\" or \"binary\""));
    }
    let found = arguments.series(0)?;
    let shown = |value: f64| match (&system, &units) {
        (Some(system), units) => {
            let (value, prefix) = prefixed(value, system == "binary");
            match units {
                Some(units) => format!("{value:.2} {prefix}{units}"),
                None => format!("{value:.2}{prefix}"),
            }
        }
        (None, Some(units)) => format!("{value:.2} {units}"),
        (None, None) => format!("{value:.2}"),
    };
    let columns = [Aggregation::Last, Aggregation::Max, Aggregation::Min];
    let of = |series: &Series, how: Aggregation| how.of(series.values.iter().copied());
    let length = |text: &str| text.chars().count();
    let names = found.iter().map(|series| length(&series.name)).max().unwrap_or(0);
    let widths = columns.map(|how| {
        let widths = found.iter().map(|series| {
            let value = of(series, how);
            let whole = if value.is_nan() || value == 0.0 { 3.0 } else { value.trunc() };
            length(&shown(whole))
        });
        widths.max().unwrap_or(0) + 3
    });
    let cell = |series: &Series, how: Aggregation| match of(series, how) {
        value if value.is_nan() => "nan".to_owned(),
        value => shown(value),
    };
    let name = |series: &Series| {
        let [last, max, min] = columns.map(|how| cell(series, how));
        let [w, x, y] = widths;
        format!("{:<names$} Current:{last:<w$} Max:{max:<x$} Min:{min:<y$} ", series.name)
    };
    let shown_names: Vec<String> = found.iter().map(name).collect();
    let renamed = found.into_iter().zip(shown_names);
    Ok(renamed.map(|(series, name)| Series { name, ..series }).collect())
}

/// A value with its prefix: `1.5`, `K`.
fn prefixed(value: f64, binary: bool) -> (f64, &'static str) {
    let (base, names): (f64, [&str; 5]) = match binary {
        true => (1_024.0, ["Pi", "Ti", "Gi", "Mi", "Ki"]),
        false => (1_000.0, ["P", "T", "G", "M", "k"]),
    };
    for (name, power) in names.into_iter().zip((1..=5).rev()) {
        let size = base.powi(power);
        if value.abs() >= size {
            return (value / size, name);
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_python_s() {
        assert_eq!(replacement(r"\1-\2"), "${1}-${2}");
        assert_eq!(replacement(r"\g<a>b$"), "${a}b$$");
        assert_eq!(replacement(r"a\\b"), r"a\b");
    }

    #[test]
    fn nodes_come_from_the_path_inside() {
        let series = Series::new("scale(sumSeries(a.b.c),2)", 0, 10, vec![]);
        let node = |n| key(&series, &[NodeOrTag::Node(n)]);
        assert_eq!((node(0), node(-1), node(5)), ("a".into(), "c".into(), String::new()));
        let tagged = Series::new("disk.used;host=web1", 0, 10, vec![]);
        assert_eq!(key(&tagged, &[NodeOrTag::Node(1)]), "used");
    }
}
