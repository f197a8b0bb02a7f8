//! The tables in the tests of gostatsd, brubeck, go-carbon and carbon: their inputs through our
//! parsers, compared with what the tests expect of each.
//!
//! The files are source code, of which only literals are parsed: a table row has an input and the
//! expected result.

use std::collections::BTreeMap;

use formats::text::{Graphite, Parser, Reader, Statsd};
use formats::{Arrival, Lines, SeriesName, UpdateContent};
use series::{Kind, Limits, SECOND_US, Step};

use crate::corpus::Outcomes;

/// Arrival time of lines without a time, in seconds since the epoch.
const NOW_S: i64 = 1_553_244_874;

/// The expected result of an input.
#[derive(Clone, Debug, PartialEq)]
enum ExpectedResult {
    Refused,
    /// An event, which is not a series.
    Event,
    Numbers(Numbers),
}

/// Values by series, and for Graphite also by time.
type Numbers = BTreeMap<String, f64>;

/// An input with its expected result.
type Case = (Vec<u8>, ExpectedResult);

/// Reads the cases of a file.
type Cases = fn(&str) -> Vec<Case>;

/// Makes a parser.
type Make = fn() -> Box<dyn Parser>;

/// By file name: the function that reads its cases, and whether they are StatsD or Graphite.
const FILES: [(&str, Cases, Make); 4] = [
    ("lexer_test.go", gostatsd, statsd),
    ("statsd_msg.c", brubeck, statsd),
    ("plain_test.go", go_carbon, graphite),
    ("test_protocols.py", carbon, graphite),
];

/// Reads every input of a file with such tables; `None` for other files.
///
/// # Errors
/// A message about a file without such a table.
pub fn compare(name: &str, text: &str) -> Option<Result<Outcomes, String>> {
    let (_, cases, parser) = FILES.into_iter().find(|(known, ..)| *known == name)?;
    let cases = cases(text);
    if cases.is_empty() {
        return Some(Err("it has no table of inputs".to_owned()));
    }
    let mut outcomes = Outcomes::new();
    for (input, wanted) in cases {
        let outcome = match read(parser(), &input) {
            Ok((found, reasons)) => outcome(&wanted, &found, &reasons),
            Err(what) => return Some(Err(what)),
        };
        let example = || String::from_utf8_lossy(&input).into_owned();
        outcomes.entry(outcome).or_insert_with(|| (0, example())).0 += 1;
    }
    Some(Ok(outcomes))
}

fn outcome(wanted: &ExpectedResult, found: &Numbers, reasons: &[&str]) -> String {
    let wanted = match wanted {
        ExpectedResult::Event if found.is_empty() => {
            return "an event; tachograph refuses it".to_owned();
        }
        ExpectedResult::Event => return "only the other project refuses".to_owned(),
        ExpectedResult::Refused => {
            let outcome = match (found.is_empty(), reasons.is_empty()) {
                (true, false) => "both refuse",
                (true, true) => "the other project refuses, and tachograph finds nothing to take",
                (false, _) => "only the other project refuses",
            };
            return outcome.to_owned();
        }
        ExpectedResult::Numbers(wanted) => wanted,
    };
    if found == wanted && reasons.is_empty() {
        return "the same".to_owned();
    }
    if found == wanted {
        return "the same numbers; what the other passes over is refused".to_owned();
    }
    let values = |numbers: &Numbers| {
        let mut values: Vec<f64> = numbers.values().copied().collect();
        values.sort_by(f64::total_cmp);
        values
    };
    match (reasons, values(found) == values(wanted)) {
        ([], true) => "the same numbers; the name kept as sent".to_owned(),
        ([], false) => "other numbers".to_owned(),
        _ => format!("only tachograph refuses: {}", reasons.join(", ")),
    }
}

fn statsd() -> Box<dyn Parser> {
    Box::new(Statsd::new(ten_seconds()))
}

fn ten_seconds() -> Step {
    Step::from_secs(10).unwrap_or_else(|| unreachable!("ten seconds are a step"))
}

fn graphite() -> Box<dyn Parser> {
    Box::new(Graphite::new(Kind::Gauge))
}

/// The results of our parser: numbers, and the names of reasons.
fn read(parser: Box<dyn Parser>, text: &[u8]) -> Result<(Numbers, Vec<&'static str>), String> {
    let limits = Limits { future_us: i64::MAX, ..Limits::DEFAULT };
    let mut reader = Reader::new(parser, limits, 1_000);
    let mut lines = Lines::quoted(text, reader.quotes(), true);
    let now_us = NOW_S * SECOND_US;
    let arrival = Arrival { now_us, at_us: Some(now_us) };
    let (mut numbers, mut reasons) = (Numbers::new(), Vec::new());
    loop {
        let line = lines.next().map_err(|error| error.to_string())?;
        let is_last = line.is_none();
        let parsed = match line {
            Some(line) => reader.line(line, arrival).map_err(|error| error.to_string())?.clone(),
            None => reader.flush().clone(),
        };
        reasons.extend(parsed.reasons.iter().map(|reason| reason.name()));
        let windows = parsed.windows.iter();
        let windows = windows.filter_map(|window| Some((window.series, window.update?)));
        for (series, update) in parsed.updates.iter().copied().chain(windows) {
            let name = reader.book().name(series);
            let (key, value) = match update.what {
                UpdateContent::Point(point) if update.kind == Kind::Gauge => {
                    (at(name, point.at_us / SECOND_US), point.reading.as_f64())
                }
                UpdateContent::Point(point) => (name.to_string(), point.reading.as_f64()),
                UpdateContent::Interval(interval) => {
                    (name.to_string(), interval.cover().amount.as_f64())
                }
            };
            // The other projects' tests expect no particular percentiles.
            if !matches!(name.field(), "p50" | "p90" | "p99") {
                numbers.insert(key, value);
            }
        }
        if is_last {
            return Ok((numbers, reasons));
        }
    }
}

/// The key of a point.
fn at(name: &SeriesName, at_s: i64) -> String {
    format!("{name} @{at_s}")
}

/// The numbers of a StatsD line, from a test's expected result: `None` for names that ours
/// cannot have.
fn of_statsd(
    kind: &str,
    name: &str,
    values: &[f64],
    rate: f64,
    tags: &[String],
) -> Option<Numbers> {
    let tags = tags.iter().map(|tag| match tag.split_once(':') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (tag.clone(), "true".to_owned()),
    });
    let tags: Vec<(String, String)> = tags.collect();
    let series = |field: &str| SeriesName::new(name, tags.iter().cloned(), field).ok();
    let sum: f64 = values.iter().sum();
    let count = values.len() as f64;
    let extreme = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
    let numbers = match kind {
        "COUNTER" | "c" => vec![(series("count")?.to_string(), sum / rate)],
        "GAUGE" | "g" => match values.last() {
            Some(last) => vec![(at(&series("value")?, NOW_S), *last)],
            None => Vec::new(),
        },
        "SET" | "s" => vec![(series("distinct")?.to_string(), 1.0)],
        _ if values.is_empty() => Vec::new(),
        _ => vec![
            (series("n")?.to_string(), count / rate),
            (series("mean")?.to_string(), sum / count),
            (series("min")?.to_string(), extreme(f64::min)?),
            (series("max")?.to_string(), extreme(f64::max)?),
        ],
    };
    Some(numbers.into_iter().collect())
}

/// `internal/lexer/lexer_test.go` of gostatsd.
fn gostatsd(text: &str) -> Vec<Case> {
    let (mut cases, mut table) = (Vec::new(), "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("func ") {
            table = rest.split('(').next().unwrap_or_default();
        }
        let Some((input, rest)) = literal(line.trim_start()) else { continue };
        let wanted = match table {
            "TestMetricsLexer" if rest.contains("Name:") => metric(rest),
            "TestInvalidMetricsLexer" if rest == "," => Some(ExpectedResult::Refused),
            "TestEventsLexer" if rest.starts_with(':') => Some(ExpectedResult::Event),
            "TestInvalidEventsLexer" if rest.starts_with(':') => Some(ExpectedResult::Refused),
            _ => None,
        };
        cases.extend(wanted.map(|wanted| (input, wanted)));
    }
    cases
}

/// A metric of gostatsd: `{Name: "a", Values: []float64{2}, Type: gostatsd.COUNTER, …}`.
fn metric(text: &str) -> Option<ExpectedResult> {
    let behind = |key: &str| text.split_once(key).map(|(_, rest)| rest);
    let list = |key: &str| behind(key).and_then(|rest| Some(rest.split_once('}')?.0));
    let name = String::from_utf8(literal(behind("Name: ")?)?.0).ok()?;
    let values = list("Values: []float64{").unwrap_or_default();
    let values = values.split(',').filter_map(|value| value.trim().parse().ok());
    let values: Vec<f64> = values.collect();
    let kind = behind("Type: gostatsd.")?.split(',').next()?;
    let rate = behind("Rate: ")?.split([',', '}']).next()?.trim().parse().ok()?;
    let tags = list("Tags: gostatsd.Tags{").unwrap_or_default();
    let tags = tags.split(", ").filter_map(|tag| String::from_utf8(literal(tag)?.0).ok());
    let tags: Vec<String> = tags.collect();
    Some(ExpectedResult::Numbers(of_statsd(kind, &name, &values, rate, &tags)?))
}

/// `tests/statsd_msg.c` of brubeck.
fn brubeck(text: &str) -> Vec<Case> {
    let case = |line: &str| {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("must_not_parse(") {
            return Some((literal(rest)?.0, ExpectedResult::Refused));
        }
        let (input, rest) = literal(line.strip_prefix("must_parse(")?)?;
        let numbers = rest.trim_start_matches(',').split(',').map(|number| number.trim().parse());
        let numbers: Vec<f64> = numbers.map_while(Result::ok).collect();
        let [value, each] = numbers[..] else { return None };
        let text = String::from_utf8(input.clone()).ok()?;
        let (name, rest) = text.split_once(':')?;
        let kind = rest.split('|').nth(1)?;
        let kind = if kind == "C" { "c" } else { kind };
        let wanted = of_statsd(kind, name, &[value], 1.0 / each, &[])?;
        Some((input, ExpectedResult::Numbers(wanted)))
    };
    text.lines().filter_map(case).collect()
}

/// `receiver/parse/plain_test.go` of go-carbon.
fn go_carbon(text: &str) -> Vec<Case> {
    let case = |line: &str| {
        let line = line.trim().strip_prefix('{')?;
        if let Some(rest) = line.strip_prefix("b: ") {
            return Some((literal(rest)?.0, ExpectedResult::Refused));
        }
        let (input, rest) = literal(line)?;
        let (name, rest) = literal(rest.strip_prefix(", ")?)?;
        let (value, at_s) = rest.strip_prefix(", ")?.split_once(", ")?;
        let at_s = at_s.trim_end_matches(['}', ',']).parse().ok()?;
        Some((input, points(&[(name, at_s, value.parse().ok()?)])?))
    };
    text.lines().filter_map(case).collect()
}

/// `lib/carbon/tests/test_protocols.py` of carbon: the tests of its line and datagram receivers.
fn carbon(text: &str) -> Vec<Case> {
    let receivers = text.split("\nclass ").filter(|class| {
        class.starts_with("TestMetricLineReceiver")
            || class.starts_with("TestMetricDatagramReceiver")
    });
    let tests = receivers.flat_map(|class| class.split("    def test_").skip(1));
    let mut cases = Vec::new();
    for test in tests {
        let (mut given, mut wanted) = (Vec::new(), Vec::new());
        let mut rest = test;
        while let Some(at) = rest.find('\'') {
            let (before, behind) = rest.split_at(at);
            let Some((bytes, behind)) = literal(behind) else { break };
            rest = behind;
            if before.ends_with('b') {
                let times = behind.strip_prefix(" * ").and_then(|n| n.split(')').next());
                let times = times.and_then(|n| n.split_whitespace().next()?.parse().ok());
                given.push(bytes.repeat(times.unwrap_or(1)));
            } else if let Some(pair) = behind.strip_prefix(", (") {
                let pair = pair.split(')').next().and_then(|pair| pair.split_once(", "));
                let pair = pair.and_then(|(at, v)| Some((at.parse().ok()?, v.parse().ok()?)));
                wanted.extend(pair.map(|(at_s, value): (i64, f64)| (bytes, at_s, value)));
            }
        }
        if given.is_empty() {
            continue;
        }
        let wanted =
            if wanted.is_empty() { Some(ExpectedResult::Refused) } else { points(&wanted) };
        cases.extend(wanted.map(|wanted| (given.join(&b'\n'), wanted)));
    }
    cases
}

/// The results of a Graphite receiver: names, times and values.
fn points(points: &[(Vec<u8>, i64, f64)]) -> Option<ExpectedResult> {
    let point = |(name, at_s, value): &(Vec<u8>, i64, f64)| {
        let name = SeriesName::new(String::from_utf8(name.clone()).ok()?, [], "value").ok()?;
        Some((at(&name, if *at_s == -1 { NOW_S } else { *at_s }), *value))
    };
    points.iter().map(point).collect::<Option<Numbers>>().map(ExpectedResult::Numbers)
}

/// The bytes of a quoted literal at the beginning of a text, and the rest of the text.
fn literal(text: &str) -> Option<(Vec<u8>, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut bytes = Vec::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == quote {
            return Some((bytes, &text[at + 1..]));
        }
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        bytes.push(match characters.next()?.1 {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'x' => {
                let digits: String = characters.by_ref().take(2).map(|(_, c)| c).collect();
                u8::from_str_radix(&digits, 16).ok()?
            }
            c => u8::try_from(c).ok()?,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(name: &str, text: &str) -> Vec<(String, u64)> {
        let outcomes = compare(name, text).unwrap_or_else(|| panic!("{name} is known"));
        let outcomes = outcomes.unwrap_or_else(|what| panic!("{what}"));
        outcomes.into_iter().map(|(outcome, (count, _))| (outcome, count)).collect()
    }

    fn pairs(wanted: &[(&str, u64)]) -> Vec<(String, u64)> {
        wanted.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect()
    }

    /// Files in the form of the real ones, with our own inputs.
    #[test]
    fn tables_in_go_are_read() {
        let text = r##"
func TestMetricsLexer(t *testing.T) {
    "k:4|c|@0.5|#a:b,c": {Name: "k", Values: []float64{4}, Type: gostatsd.COUNTER, Rate: 0.5, Tags: gostatsd.Tags{"a:b", "c"}},
    "k l:4|g":           {Name: "k_l", Values: []float64{4}, Type: gostatsd.GAUGE, Rate: 1.0},
    "k:4:8|ms":          {Name: "k", Values: []float64{4, 8}, Type: gostatsd.TIMER, Rate: 1.0},
    "k:4:|ms":           {Name: "k", Values: []float64{4}, Type: gostatsd.TIMER, Rate: 1.0},
    "k:joe|s":           {Name: "k", StringValue: "joe", Type: gostatsd.SET, Rate: 1.0},
    "k:5|c":             {Name: "k", Values: []float64{6}, Type: gostatsd.COUNTER, Rate: 1.0},
func TestInvalidMetricsLexer(t *testing.T) {
    "k:1|what",
    "k:1|c",
func TestEventsLexer(t *testing.T) {
    "_e{1,1}:a|b": {Title: "a", Text: "b"},
"##;
        let wanted = [
            ("an event; tachograph refuses it", 1),
            ("both refuse", 1),
            ("only tachograph refuses: no_value", 1),
            ("only the other project refuses", 1),
            ("other numbers", 1),
            ("the same", 3),
            ("the same numbers; the name kept as sent", 1),
        ];
        assert_eq!(counts("lexer_test.go", text), pairs(&wanted));
        let text = "{b: \"a\\n\"},\n{\"a.b 4.5 77\\r\\n\", \"a.b\", 4.5, 77},\n";
        let wanted = [("both refuse", 1), ("the same", 1)];
        assert_eq!(counts("plain_test.go", text), pairs(&wanted));
    }

    #[test]
    fn tables_in_c_and_python_are_read() {
        let text = "must_parse(\"a:2|c|@0.1\", 2, 10.0, 0);\nmust_not_parse(\"a:2|x\");\n";
        let wanted = [("both refuse", 1), ("the same", 1)];
        assert_eq!(counts("statsd_msg.c", text), pairs(&wanted));
        let text = r"
class TestMetricDatagramReceiver(TestCase):
    def test_one(self):
        metric = b'\xc3\xa9 1 -1\nnot\n'
        M.assert_called_once_with('é', (-1, 1))
    def test_two(self):
        self.receiver.lineReceived(b'a' * 3)
        M.assert_not_called()

class TestOther(TestCase):
    def test_three(self):
        metric = b'1'
";
        let wanted =
            [("both refuse", 1), ("the same numbers; what the other passes over is refused", 1)];
        assert_eq!(counts("test_protocols.py", text), pairs(&wanted));
        assert_eq!(compare("main.c", "").map(|_| ()), None);
        assert!(compare("statsd_msg.c", "int main;").is_some_and(|found| found.is_err()));
    }
}
