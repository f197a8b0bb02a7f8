//! Evaluates targets over series that a [`SeriesSource`] fetches.

use crate::functions::{self, Arguments};
use crate::{Context, Expression, GraphiteError, Selection, Series, SeriesSource};

/// Evaluates a target.
///
/// # Errors
/// Those of the source, and [`GraphiteError`] for unknown functions and wrong arguments.
pub fn evaluate(
    target: &Expression,
    context: &Context,
    source: &mut dyn SeriesSource,
) -> Result<Vec<Series>, GraphiteError> {
    let found = match target {
        Expression::Path(path) => {
            let mut found =
                source.fetch(&Selection::Path(path), context.from_s, context.until_s)?;
            for series in &mut found {
                series.path.clone_from(path);
            }
            found
        }
        Expression::Call(call) => {
            let Some(function) = functions::find(&call.name) else {
                let hint = functions::nearest(&call.name);
                return Err(GraphiteError::UnknownFunction { name: call.name.clone(), hint });
            };
            let mut arguments = Arguments::new(call, function, context, source)?;
            (function.run)(&mut arguments)?
        }
        _ => {
            return Err(GraphiteError::Argument {
                function: "target".to_owned(),
                cause: "a target must be a path or a function call".to_owned(),
            });
        }
    };
    let values: usize = found.iter().map(|series| series.values.len()).sum();
    context.spend(values)?;
    Ok(found)
}
