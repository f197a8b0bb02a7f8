//! Holt-Winters forecasts: level, slope and season, with the constants that Graphite uses.

use super::FunctionResult;
use super::arguments::Arguments;
use crate::{GraphiteError, Series};

const ALPHA: f64 = 0.1;
const BETA: f64 = 0.0035;
const GAMMA: f64 = 0.1;

/// Limit on the values of all series that are analysed.
const VALUES_MAX: usize = 20_000_000;

struct Analysis {
    predictions: Vec<f64>,
    deviations: Vec<f64>,
}

fn analyse(series: &Series, season_s: i64) -> Analysis {
    let season = usize::try_from(season_s / series.step_s).unwrap_or(0);
    let count = series.values.len();
    let (mut seasonals, mut deviations) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut predictions = Vec::with_capacity(count);
    // The level and the slope after the value before; the level is NaN after an unknown value.
    let (mut level, mut slope) = (f64::NAN, 0.0);
    let mut next = f64::NAN;
    let ago = |values: &[f64], place: usize| {
        place.checked_sub(season).and_then(|place| values.get(place)).copied().unwrap_or(0.0)
    };
    for (place, &actual) in series.values.iter().enumerate() {
        if actual.is_nan() {
            predictions.push(next);
            seasonals.push(0.0);
            deviations.push(0.0);
            (level, slope, next) = (f64::NAN, 0.0, f64::NAN);
            continue;
        }
        let (last_level, prediction) = match place {
            0 => (actual, actual),
            _ if level.is_nan() => (actual, next),
            _ => (level, next),
        };
        let last_slope = slope;
        let (seasonal, next_seasonal) = (ago(&seasonals, place), ago(&seasonals, place + 1));
        level = ALPHA * (actual - seasonal) + (1.0 - ALPHA) * (last_level + last_slope);
        slope = BETA * (level - last_level) + (1.0 - BETA) * last_slope;
        let predicted = if prediction.is_nan() { 0.0 } else { prediction };
        let deviation =
            GAMMA * (actual - predicted).abs() + (1.0 - GAMMA) * ago(&deviations, place);
        next = level + slope + next_seasonal;
        seasonals.push(GAMMA * (actual - level) + (1.0 - GAMMA) * seasonal);
        deviations.push(deviation);
        predictions.push(prediction);
    }
    Analysis { predictions, deviations }
}

/// A forecast with its deviations, for the range of the query.
struct Forecast {
    series: Series,
    start_s: i64,
    predictions: Vec<f64>,
    deviations: Vec<f64>,
}

fn forecasts(
    arguments: &mut Arguments<'_>,
    bootstrap: usize,
) -> Result<Vec<Forecast>, GraphiteError> {
    let length = |place: usize, otherwise: &str| -> Result<i64, GraphiteError> {
        let text = arguments.text(place)?.unwrap_or_else(|| otherwise.to_owned());
        match crate::parse_length(&text)? {
            seconds if seconds > 0 => Ok(seconds),
            _ => Err(arguments.wrong("intervals must be longer than 0 s")),
        }
    };
    let (bootstrap_s, season_s) = (length(bootstrap, "7d")?, length(bootstrap + 1, "1d")?);
    let (from_s, until_s) = (arguments.context.from_s, arguments.context.until_s);
    let found = arguments.series_between(0, from_s.saturating_sub(bootstrap_s), until_s)?;
    let values: usize = found.iter().map(|series| series.values.len()).sum();
    if values > VALUES_MAX {
        return Err(GraphiteError::Limit {
            what: format!("analyses {values} values"),
            limit: VALUES_MAX as u64,
            remedy: "select fewer series or a shorter bootstrap interval",
        });
    }
    let forecast = |series: Series| {
        let Analysis { mut predictions, mut deviations } = analyse(&series, season_s);
        let before = usize::try_from(bootstrap_s / series.step_s).unwrap_or(0);
        let before = before.min(predictions.len());
        predictions.drain(..before);
        deviations.drain(..before);
        let start_s = series.start_s.saturating_add(bootstrap_s);
        Forecast { series, start_s, predictions, deviations }
    };
    Ok(found.into_iter().map(forecast).collect())
}

impl Forecast {
    fn named(&self, label: &str, values: Vec<f64>) -> Series {
        let series = Series::new(
            &format!("{label}({})", self.series.name),
            self.start_s,
            self.series.step_s,
            values,
        );
        Series { end_s: self.series.end_s, xff: self.series.xff, ..series }
    }

    /// The prediction, so many deviations below and above.
    fn bounds(&self, delta: f64) -> (Vec<f64>, Vec<f64>) {
        let pairs = || self.predictions.iter().zip(&self.deviations);
        let lower = pairs().map(|(prediction, deviation)| prediction - delta * deviation);
        let upper = pairs().map(|(prediction, deviation)| prediction + delta * deviation);
        (lower.collect(), upper.collect())
    }
}

pub(super) fn holt_winters_forecast(arguments: &mut Arguments<'_>) -> FunctionResult {
    let forecasts = forecasts(arguments, 1)?;
    let named =
        |forecast: &Forecast| forecast.named("holtWintersForecast", forecast.predictions.clone());
    Ok(forecasts.iter().map(named).collect())
}

pub(super) fn holt_winters_confidence_bands(arguments: &mut Arguments<'_>) -> FunctionResult {
    let delta = arguments.number_or(1, 3.0)?;
    let bands = forecasts(arguments, 2)?.into_iter().flat_map(|forecast| {
        let (lower, upper) = forecast.bounds(delta);
        let path = forecast.series.path.clone();
        let lower = forecast.named("holtWintersConfidenceLower", lower);
        let upper = forecast.named("holtWintersConfidenceUpper", upper);
        [lower, upper].map(|band| Series { path: path.clone(), ..band })
    });
    Ok(bands.collect())
}

pub(super) fn holt_winters_aberration(arguments: &mut Arguments<'_>) -> FunctionResult {
    let delta = arguments.number_or(1, 3.0)?;
    let found = forecasts(arguments, 2)?.into_iter().map(|forecast| {
        let (lower, upper) = forecast.bounds(delta);
        let before = forecast.series.values.len() - forecast.predictions.len();
        let actual = &forecast.series.values[before..];
        let beyond = actual.iter().zip(lower.iter().zip(&upper)).map(|(actual, (lower, upper))| {
            // Comparisons with an unknown value are false.
            if actual > upper {
                actual - upper
            } else if actual < lower {
                actual - lower
            } else {
                0.0
            }
        });
        forecast.named("holtWintersAberration", beyond.collect())
    });
    Ok(found.collect())
}
