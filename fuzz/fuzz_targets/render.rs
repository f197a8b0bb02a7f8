//! What a render request contains: targets, times, wildcards and tag expressions.
#![no_main]

use graphite::{Context, Glob, GraphiteError, Selection, Series, SeriesSource, TagExpression};
use libfuzzer_sys::fuzz_target;

/// Two series for every selection.
struct Same;

impl SeriesSource for Same {
    fn fetch(
        &mut self,
        _selection: &Selection<'_>,
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let count = usize::try_from((until_s - from_s) / 10).unwrap_or(0).min(50);
        let values = (0..count).map(|i| if i % 7 == 0 { f64::NAN } else { i as f64 });
        let values: Vec<f64> = values.collect();
        Ok(vec![
            Series::new("a.b;host=x", from_s, 10, values.clone()),
            Series::new("a.c", from_s, 20, values),
        ])
    }
}

fuzz_target!(|text: &str| {
    let _ = graphite::parse_time(text, 1_772_323_200, &graphite::zone("UTC").unwrap());
    let _ = graphite::parse_length(text);
    let _ = TagExpression::parse(text);
    if let Ok(glob) = Glob::new(text) {
        assert!(glob.is_wild() || glob.matches(text));
    }
    if let Ok(target) = graphite::parse(text) {
        let context = Context::new(0, 500, 10_000).unwrap();
        if let Ok(found) = graphite::evaluate(&target, &context, &mut Same) {
            for series in found {
                assert!(series.fitted(10).values.len() <= 10);
            }
        }
    }
});
