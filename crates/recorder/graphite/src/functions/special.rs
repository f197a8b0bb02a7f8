//! Functions that make series, or change how they are shown.

use super::FunctionResult;
use super::arguments::Arguments;
use super::calculate::line;
use crate::{GraphiteError, Series, TagExpression};

pub(super) fn series_by_tag(arguments: &mut Arguments<'_>) -> FunctionResult {
    let texts = arguments.texts(0)?;
    let parsed = texts.iter().map(|text| TagExpression::parse(text));
    let expressions = parsed.collect::<Result<Vec<_>, GraphiteError>>()?;
    let mut found = arguments.tagged(&expressions)?;
    for series in &mut found {
        series.path.clone_from(&arguments.call.text);
    }
    Ok(found)
}

pub(super) fn constant_line(arguments: &mut Arguments<'_>) -> FunctionResult {
    let Some(value) = arguments.number(0)? else {
        return Err(arguments.wrong("'value' must be a number"));
    };
    let (from_s, until_s) = (arguments.context.from_s, arguments.context.until_s);
    let line = line(from_s, until_s, value.value);
    let path = format!("constantLine({})", line.name);
    Ok(vec![Series { path, ..line }])
}

pub(super) fn threshold(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (label, color) = (arguments.text(1)?, arguments.text(2)?);
    let lines = constant_line(arguments)?.into_iter();
    let labelled = lines.map(|series| Series {
        name: label.clone().unwrap_or_else(|| series.name.clone()),
        color: color.clone(),
        ..series
    });
    Ok(labelled.collect())
}

pub(super) fn color(arguments: &mut Arguments<'_>) -> FunctionResult {
    let color = arguments.required_text(1)?;
    let found = arguments.series(0)?.into_iter();
    Ok(found.map(|series| Series { color: Some(color.clone()), ..series }).collect())
}

pub(super) fn consolidate_by(arguments: &mut Arguments<'_>) -> FunctionResult {
    let (name, how) = arguments.aggregation(1, "average")?;
    consolidated(arguments.series(0)?, &name, how)
}

pub(super) fn cumulative(arguments: &mut Arguments<'_>) -> FunctionResult {
    consolidated(arguments.series(0)?, "sum", crate::Aggregation::Sum)
}

fn consolidated(found: Vec<Series>, name: &str, how: crate::Aggregation) -> FunctionResult {
    let found = found.into_iter().map(|series| {
        let name = format!("consolidateBy({},\"{name}\")", series.name);
        Series { consolidation: how, ..series.renamed(name) }
    });
    Ok(found.collect())
}

pub(super) fn set_xff(arguments: &mut Arguments<'_>) -> FunctionResult {
    let xff = arguments.number_or(1, 0.0)?;
    if !(0.0..=1.0).contains(&xff) {
        return Err(arguments.wrong("'xFilesFactor' must be from 0 to 1"));
    }
    let found = arguments.series(0)?.into_iter();
    Ok(found.map(|series| Series { xff, ..series }).collect())
}
