//! Our functions against the real graphite-web, over the same random series in whisper files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base::{Rng, Seed};
use graphite::{
    Context, Entry, GraphiteError, Index, Selection, Series, SeriesSource, evaluate, parse,
};
use rand::RngExt as _;
use serde_json::{Value, json};

/// The real programs, pinned.
pub const REQUIREMENTS: [&str; 4] =
    ["graphite-web==1.1.10", "whisper==1.1.10", "Django==3.0.14", "pyparsing==3.3.3"];

const SCRIPT: &str = include_str!("graphite_web.py");

/// The first second of all series: 2026-03-01T00:00:00Z.
pub const START_S: i64 = 1_772_323_200;
/// Their step.
pub const STEP_S: i64 = 10;

/// Slots of each series: two hours.
const SLOTS: usize = 720;

/// Values may differ by this part.
const TOLERANCE: f64 = 1e-9;

/// Targets in which `$n` is a random number. Every function is in one at least.
const TARGETS: &[&str] = &[
    "web.*.hits",
    "web.{a,c}.hits",
    "web.?.[a-m]*",
    "absolute(offset(web.a.hits,-$n))",
    "add(web.*.hits,$n)",
    "aggregate(web.*.hits,'median')",
    "aggregate(web.*.*,'stddev')",
    "aggregateLine(web.*.hits,'max')",
    "aggregateLine(web.*.hits,'average',true)",
    "alias(web.a.hits,'a name')",
    "aliasByMetric(scale(web.*.hits,2))",
    "aliasByNode(sumSeries(web.*.hits),0,2)",
    "aliasByNode(web.*.hits,-1,1)",
    "aliasByTags(seriesByTag('name=disk'),'host',0)",
    "aliasSub(web.*.hits,'web\\.(\\w)','<\\1>')",
    "asPercent(web.*.hits)",
    "asPercent(web.*.hits,$n)",
    "asPercent(web.*.hits,sumSeries(web.*.load))",
    "asPercent(web.*.hits,web.*.load)",
    "asPercent(web.*.*,None,1)",
    "asPercent(web.*.hits,web.*.load,1)",
    "pct(web.a.hits,50)",
    "averageAbove(web.*.*,$n)",
    "averageBelow(web.*.*,$n)",
    "averageSeries(web.*.hits)",
    "avg(web.a.hits,web.b.*)",
    "averageSeriesWithWildcards(web.*.*,1)",
    "cactiStyle(web.*.hits)",
    "cactiStyle(scale(web.*.hits,1000),'si','b')",
    "cactiStyle(scale(web.*.hits,5000),'binary')",
    "changed(web.*.steps)",
    "color(web.a.hits,'red')",
    "consolidateBy(web.a.hits,'max')",
    "constantLine(12.5)",
    "constantLine($n)",
    "countSeries(web.*.hits)",
    "cumulative(web.a.hits)",
    "currentAbove(web.*.*,$n)",
    "currentBelow(web.*.*,$n)",
    "delay(web.a.hits,3)",
    "delay(web.a.hits,-3)",
    "derivative(web.*.hits)",
    "diffSeries(web.a.hits,web.*.load)",
    "diffSeriesLists(web.*.hits,web.*.load)",
    "divideSeries(web.*.hits,web.a.load)",
    "divideSeries(web.a.hits,no.such)",
    "divideSeriesLists(web.*.hits,web.*.load)",
    "exclude(web.*.*,'a|steps')",
    "exponentialMovingAverage(web.*.hits,10)",
    "exponentialMovingAverage(web.a.hits,'5min')",
    "fallbackSeries(no.such,constantLine(3))",
    "grep(web.*.*,'hits$')",
    "group(web.a.hits,web.b.*)",
    "groupByNode(web.*.*,1,'sum')",
    "groupByNode(web.*.*,2)",
    "groupByNodes(web.*.*,'max',0,2)",
    "groupByTags(seriesByTag('name=disk'),'sum','rack')",
    "groupByTags(seriesByTag('rack!='),'average','host')",
    "highest(web.*.*,3,'max')",
    "highestAverage(web.*.*,2)",
    "highestCurrent(web.*.*,2)",
    "highestMax(web.*.*,2)",
    "hitcount(web.*.hits,'7min')",
    "hitcount(web.a.hits,'35s')",
    "holtWintersForecast(web.*.hits,'30min','5min')",
    "holtWintersConfidenceBands(web.a.hits,2,'30min','5min')",
    "holtWintersAberration(web.a.hits,1,'30min','5min')",
    "integral(web.*.hits)",
    "integralByInterval(web.*.hits,'10min')",
    "interpolate(web.*.hits)",
    "interpolate(web.*.hits,1)",
    "invert(web.*.steps)",
    "isNonNull(web.*.hits)",
    "keepLastValue(web.*.hits)",
    "keepLastValue(web.*.hits,2)",
    "limit(web.*.*,2)",
    "log(web.*.hits)",
    "log(web.a.hits,2)",
    "lower(web.A.hits)",
    "lowest(web.*.*,3,'min')",
    "lowestAverage(web.*.*,2)",
    "lowestCurrent(web.*.*,2)",
    "maximumAbove(web.*.*,$n)",
    "maximumBelow(web.*.*,$n)",
    "maxSeries(web.*.hits)",
    "minimumAbove(web.*.*,$n)",
    "minimumBelow(web.*.*,$n)",
    "minMax(web.*.hits)",
    "minSeries(web.*.hits)",
    "mostDeviant(web.*.*,2)",
    "movingAverage(web.*.hits,7)",
    "movingAverage(web.*.hits,'5min')",
    "movingAverage(sumSeries(web.*.hits),'2min',0.9)",
    "movingMax(web.*.hits,5)",
    "movingMedian(web.*.hits,6)",
    "movingMin(web.*.hits,'90s')",
    "movingSum(web.*.hits,4)",
    "movingWindow(web.*.hits,5,'stddev')",
    "multiplySeries(web.a.hits,web.b.hits)",
    "multiplySeries(web.a.hits)",
    "multiplySeriesLists(web.*.hits,web.*.load)",
    "multiplySeriesWithWildcards(web.*.*,2)",
    "nonNegativeDerivative(web.*.counter)",
    // graphite-web fails if a value is unknown and there is a maximum.
    "nonNegativeDerivative(seriesByTag('name=disk'),999999)",
    "nPercentile(web.*.hits,$n)",
    "offset(web.*.hits,-2.5)",
    "offsetToZero(web.*.hits)",
    "percentileOfSeries(web.*.*,$n)",
    "percentileOfSeries(web.*.*,$n,true)",
    "perSecond(web.*.counter)",
    "pow(web.*.hits,2)",
    "rangeOfSeries(web.*.hits)",
    "removeAbovePercentile(web.*.hits,$n)",
    "removeAboveValue(web.*.hits,$n)",
    "removeBelowPercentile(web.*.hits,$n)",
    "removeBelowValue(web.*.hits,$n)",
    "removeEmptySeries(web.*.*)",
    "removeEmptySeries(web.*.*,0.8)",
    "round(web.*.load)",
    "round(web.*.load,1)",
    "scale(web.*.hits,0.1)",
    "scaleToSeconds(web.*.hits,60)",
    "seriesByTag('name=disk','host=~[xy]')",
    "seriesByTag('host!=x','name=disk')",
    "setXFilesFactor(web.*.hits,0.5)",
    "xFilesFactor(web.*.hits,0.5)",
    "sortBy(web.*.*,'max')",
    "sortBy(web.*.*,'average',true)",
    "sortByMaxima(web.*.*)",
    "sortByMinima(web.*.*)",
    "sortByName(web.*.*)",
    "sortByName(web.*.*,true,true)",
    "sortByTotal(web.*.*)",
    "squareRoot(web.*.hits)",
    "stddevSeries(web.*.hits)",
    "stdev(web.*.hits,5)",
    "substr(sumSeries(web.a.hits),1,2)",
    "substr(web.a.hits,1)",
    "sum(web.*.hits)",
    "sumSeries(scale(web.*.hits,2),web.a.load)",
    "sumSeriesLists(web.*.hits,web.*.load)",
    "sumSeriesWithWildcards(web.*.*,1)",
    "summarize(web.*.hits,'5min')",
    "summarize(web.*.hits,'7min','average')",
    "summarize(web.*.hits,'5min','max',true)",
    "summarize(web.*.hits,'5min','last')",
    "threshold(5,'limit','red')",
    "timeShift(web.*.hits,'10min')",
    "timeShift(web.a.hits,'-45min')",
    "transformNull(web.*.hits,-1)",
    "transformNull(web.*.hits,0,web.a.load)",
    "unique(web.a.*,web.*.hits)",
    "upper(web.a.hits)",
    "weightedAverage(web.*.load,web.*.hits,1)",
    "web.*.hits|scale(2)|sumSeries()",
    "alias(divideSeries(sumSeries(web.*.hits),sumSeries(web.*.load)),'per load')",
    "sumSeries(keepLastValue(nonNegativeDerivative(web.*.counter),3))",
];

/// Where we differ on purpose, and how the values are compared there.
const ROUNDED: [&str; 3] = ["perSecond(", "scaleToSeconds(", "exponentialMovingAverage("];

/// Result of the comparison.
#[derive(Debug, Default)]
pub struct Agreement {
    /// Targets that were compared.
    pub targets: usize,
    /// Series with equal names, times and values.
    pub series: usize,
    /// Values that were equal.
    pub values: usize,
    /// Values that are equal once ours are rounded to six decimal places, as graphite-web does.
    pub rounded: usize,
    /// Each target that differs, with the first difference.
    pub different: Vec<String>,
}

/// Random series by name; NaN is unknown.
type Data = BTreeMap<String, Vec<f64>>;

struct Memory {
    index: Index,
    values: Vec<Vec<f64>>,
}

impl Memory {
    fn new(data: &Data) -> Memory {
        let entry = |(id, full): (i64, &String)| {
            let (name, tags) = full.split_once(';').unwrap_or((full, ""));
            let tags = tags.split(';').filter_map(|tag| tag.split_once('='));
            let tags = tags.map(|(tag, value)| (tag.to_owned(), value.to_owned())).collect();
            Entry::new(name, &tags, id)
        };
        let index = Index::new((0..).zip(data.keys()).map(entry).collect());
        Memory { index, values: data.values().cloned().collect() }
    }
}

impl SeriesSource for Memory {
    fn fetch(
        &mut self,
        selection: &Selection<'_>,
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError> {
        let entries = self.index.select(selection)?;
        let place = |at_s: i64| (at_s - START_S + STEP_S - 1).div_euclid(STEP_S);
        let (first, last) = (place(from_s), place(until_s));
        let series = entries.into_iter().map(|entry| {
            let values = &self.values[entry.id as usize];
            let at = |place: i64| usize::try_from(place).ok().and_then(|place| values.get(place));
            let values = (first..last).map(|place| at(place).copied().unwrap_or(f64::NAN));
            let start_s = START_S + first * STEP_S;
            let mut series = Series::new(&entry.full, start_s, STEP_S, values.collect());
            series.tags.clone_from(&entry.tags);
            series
        });
        Ok(series.collect())
    }
}

fn random_series(rng: &mut Rng) -> Data {
    let mut data = Data::new();
    for server in ["a", "b", "c", "d10", "d9"] {
        let unknown: f64 = if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..0.3) };
        let mut counter = 0.0;
        for field in ["hits", "load", "steps", "counter"] {
            let values = (0..SLOTS).map(|_| {
                if rng.random_bool(unknown) {
                    return f64::NAN;
                }
                match field {
                    "hits" => f64::from(rng.random_range(1..100_u32)),
                    "load" => f64::from(rng.random_range(0..10_000_u32)) / 100.0,
                    "steps" => f64::from(rng.random_range(0..3_u32)),
                    _ => {
                        counter += f64::from(rng.random_range(0..50_u32));
                        if rng.random_bool(0.02) {
                            counter = 0.0;
                        }
                        counter
                    }
                }
            });
            let values = values.collect();
            data.insert(format!("web.{server}.{field}"), values);
        }
    }
    for (host, rack) in [("x", "1"), ("y", "1"), ("z", "2")] {
        let values = (0..SLOTS).map(|_| f64::from(rng.random_range(0..1_000_u32)) / 8.0);
        data.insert(format!("disk;host={host};rack={rack}"), values.collect());
    }
    data
}

/// Asks the real graphite-web.
fn ask(python: &Path, question: &Value) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} cannot be run: {error}", python.display()))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends early reports why; the closed pipe is irrelevant.
            stdin.map(|mut stdin| stdin.write_all(question.to_string().as_bytes()))
        });
        child.wait_with_output()
    });
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("graphite-web: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// Time of one request, repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTime {
    /// Seconds of each repetition.
    pub seconds: Vec<f64>,
    /// Values in the answer, of all series.
    pub values: u64,
}

/// Requests all series in `0..until_s` seconds after [`START_S`] from the real graphite-web, through
/// the test client of its own framework, which saves it the network.
///
/// # Errors
/// graphite-web cannot be installed or started, or has no answer.
pub fn time_graphite_web(
    series: &BTreeMap<String, Vec<f64>>,
    query: &Value,
    repeats: u32,
    log: &mut dyn FnMut(&str),
) -> Result<RequestTime, String> {
    let slots = series.values().map(Vec::len).max().unwrap_or(0);
    let question = json!({
        "start": START_S, "step": STEP_S, "now": START_S + slots as i64 * STEP_S,
        "series": series, "queries": [query], "repeats": repeats,
    });
    let answers = ask(&python(log)?, &question)?;
    let timed = answers.first().and_then(|answer| {
        let seconds = answer["seconds"].as_array()?.iter().filter_map(Value::as_f64).collect();
        Some(RequestTime { seconds, values: answer["values"].as_u64()? })
    });
    timed.ok_or_else(|| format!("graphite-web answered {answers:?}"))
}

/// A Python with the real programs.
fn python(log: &mut dyn FnMut(&str)) -> Result<std::path::PathBuf, String> {
    let requirements = REQUIREMENTS.map(str::to_owned);
    let folder = stage::python::ensure_env(&requirements, None, log);
    Ok(folder.map_err(|error| error.to_string())?.join("python"))
}

/// Compares our answers with those of graphite-web, for every target in `ranges` random ranges.
///
/// # Errors
/// graphite-web cannot be installed or started.
pub fn compare(seed: Seed, ranges: u32, log: &mut dyn FnMut(&str)) -> Result<Agreement, String> {
    let python = python(log)?;
    let mut rng = seed.rng("render");
    let data = random_series(&mut rng);
    let mut queries = Vec::new();
    for _ in 0..ranges {
        // Not at the start of a slot, where whisper excludes the slot, and we include it.
        let from = rng.random_range(300..600_i64);
        let until = rng.random_range(from + 20..700);
        let (from_s, until_s) = (START_S + from * STEP_S - 1, START_S + until * STEP_S - 1);
        for target in TARGETS {
            let n = rng.random_range(1..99_u32);
            queries.push((target.replace("$n", &n.to_string()), from_s, until_s));
        }
    }
    let value = |value: &f64| if value.is_nan() { Value::Null } else { json!(value) };
    let series: BTreeMap<&String, Vec<Value>> =
        data.iter().map(|(name, values)| (name, values.iter().map(value).collect())).collect();
    let asked: Vec<Value> = queries
        .iter()
        .map(|(target, from_s, until_s)| {
            json!({"target": target, "from": from_s.to_string(), "until": until_s.to_string()})
        })
        .collect();
    let now_s = START_S + SLOTS as i64 * STEP_S;
    let question =
        json!({"start": START_S, "step": STEP_S, "now": now_s, "series": series, "queries": asked});
    let answers = ask(&python, &question)?;
    if answers.len() != queries.len() {
        return Err(format!("{} answers to {} queries", answers.len(), queries.len()));
    }
    let mut agreement = Agreement::default();
    for ((target, from_s, until_s), theirs) in queries.iter().zip(&answers) {
        agreement.targets += 1;
        let mut memory = Memory::new(&data);
        let ours = Context::new(*from_s, *until_s, 10_000_000)
            .and_then(|context| evaluate(&parse(target)?, &context, &mut memory));
        let differs = match ours {
            Ok(ours) => difference(target, &ours, theirs, &mut agreement).err(),
            Err(error) => Some(format!("ours: {error}; theirs: {theirs}")),
        };
        let at = format!("{target} in {from_s}–{until_s}");
        agreement.different.extend(differs.map(|differs| format!("{at}: {differs}")));
    }
    Ok(agreement)
}

fn difference(
    target: &str,
    ours: &[Series],
    theirs: &Value,
    agreement: &mut Agreement,
) -> Result<(), String> {
    let Some(theirs) = theirs.as_array() else { return Err(format!("theirs: {theirs}")) };
    let names = |all: &[Value]| -> Vec<String> {
        all.iter().map(|one| one["target"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let our_names: Vec<&str> = ours.iter().map(|series| series.name.as_str()).collect();
    if our_names != names(theirs) {
        return Err(format!("names {our_names:?} and {:?}", names(theirs)));
    }
    let is_rounded = ROUNDED.iter().any(|function| target.contains(function));
    for (ours, theirs) in ours.iter().zip(theirs) {
        let points = theirs["datapoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values: Vec<f64> = ours.shown().collect();
        if values.len() != points.len() {
            return Err(format!("{}: {} and {} values", ours.name, values.len(), points.len()));
        }
        for (place, (value, point)) in values.iter().zip(points).enumerate() {
            let at_s = ours.at_s(place);
            if point[1].as_i64() != Some(at_s) {
                return Err(format!("{}: {at_s} s and {}", ours.name, point[1]));
            }
            let their = point[0].as_f64().unwrap_or(f64::NAN);
            let near = (value - their).abs() <= TOLERANCE * value.abs().max(their.abs());
            if near || (value.is_nan() && their.is_nan()) {
                agreement.values += 1;
            } else if is_rounded && (value - their).abs() <= 0.5e-6 * (1.0 + TOLERANCE) {
                agreement.rounded += 1;
            } else {
                return Err(format!("{}: {value} and {their} at {at_s} s", ours.name));
            }
        }
        agreement.series += 1;
    }
    Ok(())
}

/// The functions that no target calls.
pub fn uncovered() -> Vec<&'static str> {
    let called = |name: &str| {
        let call = format!("{name}(");
        TARGETS.iter().any(|target| {
            target
                .match_indices(&call)
                .any(|(at, _)| !target[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
        })
    };
    graphite::FUNCTIONS.iter().map(|function| function.name).filter(|name| !called(name)).collect()
}
