//! What other implementations accept and refuse: facts from their tests and sources, in our own
//! lines.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use formats::text::{Graphite, Influx, Parser, Reader, Statsd};
use formats::{Arrival, Lines, Precision, UpdateContent, pickle};
use series::{Kind, Limits, Step};

/// Reads a complete stream: series and values, or the reasons for refusal.
fn read(parser: Box<dyn Parser>, text: &str) -> String {
    let limits = Limits { future_us: i64::MAX, ..Limits::DEFAULT };
    let mut reader = Reader::new(parser, limits, 1_000);
    let arrival = Arrival { now_us: 0, at_us: Some(42_000_000) };
    let mut lines = Lines::quoted(text.as_bytes(), reader.quotes(), true);
    let mut shown = Vec::new();
    loop {
        let line = lines.next().unwrap();
        let parsed = match line {
            Some(line) => reader.line(line, arrival).unwrap().clone(),
            None => reader.flush().clone(),
        };
        let windows = parsed.windows.iter().map(|window| (window.series, window.update.unwrap()));
        for (series, update) in parsed.updates.iter().copied().chain(windows) {
            let value = match update.what {
                UpdateContent::Point(point) => point.reading.as_f64(),
                UpdateContent::Interval(interval) => interval.cover().amount.as_f64(),
            };
            let (_, at_us) = update.times_us();
            shown.push(format!("{} = {value} @{at_us}", reader.book().name(series)));
        }
        shown.extend(parsed.reasons.iter().map(|reason| format!("! {}", reason.name())));
        if line.is_none() {
            return shown.join(", ");
        }
    }
}

/// After the corpus and the decoder of influxdata/line-protocol (lineprotocol/decoder.go, testdata/corpus.json).
#[test]
fn line_protocol_is_read_as_its_own_decoder_reads_it() {
    for (text, shown) in [
        // Escapes: comma and space in a measurement, and the equals sign in other names.
        (r"a\,b\ c v=1 5", "a,b c:v = 1 @0"),
        (r"a\=b v=1 5", r"a\=b:v = 1 @0"),
        (r"a,k\=1=v\,2 v=1 5", "a:v{k=1=v,2} = 1 @0"),
        (r"a,k=x\ y v\ w=1 5", "a:v w{k=x y} = 1 @0"),
        (r"a\\,k=x v=1 5", r"a\,k=x:v = 1 @0"),
        (r"a,k=C:\new v=1 5", r"a:v{k=C:\new} = 1 @0"),
        ("a=b v=1 5", "a=b:v = 1 @0"),
        ("\"a\" v=1 5", "\"a\":v = 1 @0"),
        // Spaces.
        ("  a v=1 5", "a:v = 1 @0"),
        ("a   v=1   5  ", "a:v = 1 @0"),
        ("a v=1", "a:v = 1 @42000000"),
        ("a v=1 ", "a:v = 1 @42000000"),
        ("a v=1 5\r\n\r\na w=2 6", "a:v = 1 @0, a:w = 2 @0"),
        ("\n\n  \na v=1 5\n", "a:v = 1 @0"),
        ("# a v=1\n  # b\na v=1 5", "a:v = 1 @0"),
        ("a\tv=1 5", "! control_character"),
        ("a v=1\t5", "! bad_number"),
        ("a\u{b}v=1 5", "! control_character"),
        ("a\u{7f} v=1 5", "! control_character"),
        // Values.
        (
            "a v=1i,w=2u,x=3.5,y=-4e2,z=.5 5",
            "a:v = 1 @0, a:w = 2 @0, a:x = 3.5 @0, a:y = -400 @0, a:z = 0.5 @0",
        ),
        ("a v=t,w=TRUE,x=f,y=False 5", "a:v = 1 @0, a:w = 1 @0, a:x = 0 @0, a:y = 0 @0"),
        ("a v=tRUE 5", "! bad_number"),
        ("a v=1i1 5", "! bad_number"),
        ("a v=0x1 5", "! bad_number"),
        ("a v=1_000 5", "! bad_number"),
        ("a v=-u 5", "! bad_number"),
        ("a v=. 5", "! bad_number"),
        ("a v=word 5", "! bad_number"),
        ("a v=nan 5", "! bad_number"),
        ("a v=+1 5", "! bad_number"),
        ("a v=9223372036854775808i 5", "! bad_number"),
        ("a v=-1u 5", "! bad_number"),
        ("a v= 5", "! no_value"),
        ("a v=,w=1 5", "! no_value"),
        // Incomplete fields and tags.
        ("a", "! not_line_protocol"),
        ("a ", "! not_line_protocol"),
        ("a v", "! not_line_protocol"),
        ("a v,w=1", "! not_line_protocol"),
        ("a v=1,", "! not_line_protocol"),
        ("a v=1, 5", "! not_line_protocol"),
        ("a =1 5", "! not_line_protocol"),
        ("a,k v=1 5", "! bad_tag"),
        ("a,k=1,v v=1 5", "! bad_tag"),
        ("a, v=1 5", "! bad_tag"),
        ("a,=1 v=1 5", "! empty_name"),
        ("a,k= v=1 5", "! empty_name"),
        ("a,k=1=2 v=1 5", "! bad_tag"),
        ("a,k=1,k=2 v=1 5", "! duplicate_tag"),
        (",k=1 v=1 5", "! empty_name"),
        // Times.
        ("a v=1 5 6", "! not_line_protocol"),
        ("a v=1 5s", "! bad_time"),
        ("a v=1 1e3", "! bad_time"),
        ("a v=1 +5", "! bad_time"),
        ("a v=1 99999999999999999999", "! bad_time"),
        ("a v=1 -1500", "a:v = 1 @-2"),
        // Texts, which are skipped; the rest of the line is accepted.
        ("a s=\"x\",v=1 5", "a:v = 1 @0"),
        ("a s=\"x, y=2 z\",v=1 5", "a:v = 1 @0"),
        ("a s=\"x\ny\",v=1 5", "a:v = 1 @0"),
        (r#"a s="x\"y",v=1 5"#, "a:v = 1 @0"),
        (r#"a s="x\\",v=1 5"#, "a:v = 1 @0"),
        (r#"a s="x\y",v=1 5"#, "a:v = 1 @0"),
        (r#"a s="x"y,v=1 5"#, "! open_quote"),
        (r#"a s="x,v=1 5"#, "! open_quote"),
        (r#"a "s"=1 5"#, r#"a:"s" = 1 @0"#),
        ("a v=1 5\nb\nc v=3 5", "a:v = 1 @0, ! not_line_protocol, c:v = 3 @0"),
    ] {
        let influx = Influx::new(Kind::Gauge, Precision::Nanoseconds);
        assert_eq!(read(Box::new(influx), text), shown, "{text:?}");
    }
}

/// After the tables of gostatsd (internal/lexer/lexer_test.go) and brubeck (tests/statsd_msg.c),
/// including where the two differ.
#[test]
fn statsd_is_read_as_gostatsd_and_brubeck_read_it() {
    let count = |n: i64| format!("a:count = {n} @50000000");
    for (text, shown) in [
        ("a:2|c", count(2)),
        ("a:5|c|@0.1", count(50)),
        ("a:5|c|@000.0100", count(500)),
        ("a:5|c|@1.", count(5)),
        ("a:5|c|c:xyz|@0.5", count(10)),
        ("a:0012|c", count(12)),
        ("a:1:2:3|c", count(6)),
        ("a:1|c|#", count(1)),
        ("a:1|c|#,,", count(1)),
        ("a:1|c||", count(1)),
        ("a:1|c|x:|", count(1)),
        ("a:3|g|@0.025", "a = 3 @42000000".to_owned()),
        ("a:1|c|#some:42,,new", "a:count{new=true,some=42} = 1 @50000000".to_owned()),
        ("a:joe|s", "a:distinct = 1 @50000000".to_owned()),
        ("a:+1|g", "a = 1 @42000000".to_owned()),
        ("a:1:2|g", "a = 2 @42000000".to_owned()),
        // Both refuse these.
        ("a:12.89.23|g", "! bad_number".to_owned()),
        ("a:12g|g", "! bad_number".to_owned()),
        ("a:12 |g", "! bad_number".to_owned()),
        ("a:1|q", "! unknown_type".to_owned()),
        ("a:1|msx", "! unknown_type".to_owned()),
        ("a:1|", "! unknown_type".to_owned()),
        ("a:1", "! not_statsd".to_owned()),
        ("a|g", "! not_statsd".to_owned()),
        ("a:NaN|g", "! not_a_number".to_owned()),
        ("a:1|g|0.1", "! not_statsd".to_owned()),
        ("a:1|g|@", "! bad_rate".to_owned()),
        ("a:1|g|@0.1.1", "! bad_rate".to_owned()),
        ("a:1|g|@0", "! bad_rate".to_owned()),
        ("a:1|g|@-0.2", "! bad_rate".to_owned()),
        ("a:1|g|@1.23", "! bad_rate".to_owned()),
        // We are stricter (docs/import.md): an empty value, an upper-case type, an event.
        ("a:1:|c", "! no_value".to_owned()),
        ("a:|g", "! no_value".to_owned()),
        ("a:1|C", "! unknown_type".to_owned()),
        ("_e{1,1}:a|b", "! not_a_metric".to_owned()),
    ] {
        assert_eq!(
            read(Box::new(Statsd::new(Step::from_secs(10).unwrap())), text),
            shown,
            "{text}"
        );
    }
}

/// After go-carbon (receiver/parse/plain_test.go) and the aggregator of carbon-c-relay
/// (test/basic.*), which forwards lines that it cannot parse and omits them from its sums.
#[test]
fn graphite_is_read_as_carbons_read_it() {
    for (text, shown) in [
        ("a..b -42.76 1422642189\n", "a..b = -42.76 @1422642189000000"),
        ("a.b 42.15 1422642189\r\n", "a.b = 42.15 @1422642189000000"),
        ("a-b_1 0 1553244874 \n", "a-b_1 = 0 @1553244874000000"),
        ("42", "! not_three_fields"),
        ("a 42 \n", "! not_three_fields"),
        ("a 42 a1422642189\n", "! bad_time"),
        ("a 42a 1422642189\n", "! bad_number"),
        ("a NaN 1422642189\n", "! not_a_number"),
        ("a 42 NaN\n", "! bad_time"),
        ("a b 349830000", "! bad_number"),
        ("1 2 a", "! bad_time"),
    ] {
        assert_eq!(read(Box::new(Graphite::new(Kind::Gauge)), text), shown, "{text:?}");
    }
}

/// After carbon-c-relay (dispatcher.c, test/basic.payload, test/metriclimits.payload), which cleans
/// what it accepts: dots and blanks are merged, other characters become underscores. A record keeps
/// what was sent, and refuses what the relay would forward but cannot parse.
#[test]
fn graphite_is_read_where_carbon_c_relay_cleans_it() {
    let long = format!("{} 7 1000", "n".repeat(formats::NAME_MAX + 1));
    for (text, shown) in [
        // The same, because blanks do not belong to names.
        ("shop.sold 7 1000", "shop.sold = 7 @1000000000"),
        ("shop.sold\t7\t1000", "shop.sold = 7 @1000000000"),
        ("shop.sold   7  1000", "shop.sold = 7 @1000000000"),
        ("  shop.sold 7 1000  ", "shop.sold = 7 @1000000000"),
        ("shop.sold 7 1000\r\n", "shop.sold = 7 @1000000000"),
        ("shop.sold;city=ulm;kind=e/u 7 1000", "shop.sold{city=ulm,kind=e/u} = 7 @1000000000"),
        ("\n\nshop.sold 7 1000\n\n", "shop.sold = 7 @1000000000"),
        // The relay drops lines without a blank, and longer ones than its limit.
        ("shop.sold", "! not_three_fields"),
        (&long, "! name_too_long"),
        // The relay forwards these, and its aggregator omits them.
        ("shop.sold 7", "! not_three_fields"),
        ("7 1000 shop.sold", "! bad_time"),
        ("shop.sold many times", "! bad_number"),
        ("shop.sold many 1000", "! bad_number"),
        ("shop.sold 7 now", "! bad_time"),
        // The relay renames these: to shop.sold, shop.sold, shop.sold, shop.s_ld and shop.s_ld.
        ("shop..sold 7 1000", "shop..sold = 7 @1000000000"),
        (".shop.sold 7 1000", ".shop.sold = 7 @1000000000"),
        ("shop.sold. 7 1000", "shop.sold. = 7 @1000000000"),
        ("shop.s*ld 7 1000", "shop.s*ld = 7 @1000000000"),
        ("shop.s\u{f6}ld 7 1000", "shop.s\u{f6}ld = 7 @1000000000"),
        ("shop.s\0ld 7 1000", "! control_character"),
    ] {
        assert_eq!(read(Box::new(Graphite::new(Kind::Gauge)), text), shown, "{text:?}");
    }
}

/// After Datadog's "DogStatsD Datagram Format", protocols 1.0 to 1.3, and StatsD's
/// docs/metric_types.md, at a daemon.
#[test]
fn datagrams_are_read_as_dogstatsd_and_statsd_document_them() {
    let live = |text: &str| read(Box::new(Statsd::live(Step::from_secs(10).unwrap())), text);
    let timed = |name: &str, tags: &str, n: u64, levels: [f64; 6]| {
        let fields = ["mean", "min", "max", "p50", "p90", "p99"];
        let levels = fields.iter().zip(levels);
        let levels =
            levels.map(|(field, value)| format!("{name}:{field}{tags} = {value} @50000000"));
        let n = format!("{name}:n{tags} = {n} @50000000");
        std::iter::once(n).chain(levels).collect::<Vec<_>>().join(", ")
    };
    for (text, shown) in [
        // The types: c, g, ms, h, d, s.
        ("shop.visits:7|c", "shop.visits:count = 7 @50000000".to_owned()),
        ("tank.level:0.25|g", "tank.level = 0.25 @42000000".to_owned()),
        ("songs:320|h|@0.5", timed("songs", "", 2, [320.0; 6])),
        ("songs:320|ms|@0.1", timed("songs", "", 10, [320.0; 6])),
        ("songs:320|d|#genre:jazz", timed("songs", "{genre=jazz}", 1, [320.0; 6])),
        ("visitors:4711|s", "visitors:distinct = 1 @50000000".to_owned()),
        ("online:3|c|@0.5|#country:peru", "online:count{country=peru} = 6 @50000000".to_owned()),
        // 1.1: values of one kind together; 1.2: the container; 1.3: a time, of counts and gauges.
        ("songs:1:2:3:4|h", timed("songs", "", 4, [2.5, 1.0, 4.0, 2.0, 4.0, 4.0])),
        ("visits:1:2|c|#a:b|c:d4f1", "visits:count{a=b} = 3 @50000000".to_owned()),
        ("visits:5|c|#a:b|c:d4f1|T43", "visits:count{a=b} = 5 @50000000".to_owned()),
        ("tank:5|g|T41", "tank = 5 @41000000".to_owned()),
        // Later versions: external data and cardinality.
        ("visits:5|c|e:it-false,cn-web|card:low", "visits:count = 5 @50000000".to_owned()),
        // Events and service checks.
        ("_e{2,2}:up|ok|d:5|h:web|p:low|t:info|#a:b", "! not_a_metric".to_owned()),
        ("_sc|web|2|d:5|h:web|#a:b|m:down", "! not_a_metric".to_owned()),
        // StatsD: a gauge is set to a negative number by way of 0, and changed by signs.
        ("tank:0|g\ntank:-10|g", "tank = 0 @42000000, tank = -10 @42000000".to_owned()),
        ("tank:9|g\ntank:+2|g", "tank = 9 @42000000, tank = 11 @42000000".to_owned()),
        // Several metrics in a datagram, one to a line.
        (
            "a:1|c\nb:2|g\nc:9|s\n",
            "b = 2 @42000000, a:count = 1 @50000000, c:distinct = 1 @50000000".to_owned(),
        ),
    ] {
        assert_eq!(live(text), shown, "{text}");
    }
}

/// After carbon (lib/carbon/tests/test_protocols.py, lib/carbon/protocols.py): what its pickle
/// receiver accepts, ignores, and drops with the frame.
#[test]
fn pickles_are_read_as_carbon_reads_them() {
    let carbon = |frame: &[u8]| {
        let (mut lines, mut refused) = (Vec::new(), Vec::new());
        if let Err(reason) = pickle::lines(frame, &mut lines, &mut |reason| refused.push(reason)) {
            return format!("!! {}", reason.name());
        }
        let text = String::from_utf8(lines).unwrap();
        let read = read(Box::new(Graphite::new(Kind::Gauge)), &text);
        let refused = refused.iter().map(|reason| format!("! {}", reason.name()));
        std::iter::once(read)
            .filter(|read| !read.is_empty())
            .chain(refused)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (frame, shown) in [
        // Two metrics.
        (
            &b"](U\x02m1K\x01G?\xf8\0\0\0\0\0\0\x86\x86U\x02m2K\x02K\x03\x86\x86e."[..],
            "m1 = 1.5 @1000000, m2 = 3 @2000000",
        ),
        // A name of Unicode; texts as numbers; now.
        (b"](X\x04\0\0\0\xd0\xb6.aK\x01K\x02\x86\x86e.", "\u{436}.a = 2 @1000000"),
        (b"](U\x01aU\x015U\x031.5\x86\x86e.", "a = 1.5 @5000000"),
        (b"](U\x01aJ\xff\xff\xff\xffK\x02\x86\x86e.", "a = 2 @42000000"),
        // No pair of time and value; texts that are no numbers; NaN: only the item is dropped.
        (b"](U\x01aK\x01\x86e.", "! not_a_point"),
        (b"](U\x01aU\x01bU\x01c\x86\x86U\x01bK\x01K\x02\x86\x86e.", "! bad_number, b = 2 @1000000"),
        (b"](U\x01aK\x01Fnan\n\x86\x86e.", "! not_a_number"),
        // What cannot be unpickled, and what is unsafe: the frame is dropped.
        (b"1", "!! bad_pickle"),
        (b"cos\nsystem\n(S'true'\ntR.", "!! pickle_code"),
    ] {
        assert_eq!(carbon(frame), shown, "{}", frame.escape_ascii());
    }
    // Carbon's MAX_LENGTH.
    assert_eq!(pickle::FRAME_MAX, 1 << 20);
}
