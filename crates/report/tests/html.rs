//! The HTML report and its charts: well-formed, self-contained, and safe whatever the names
//! contain.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use insta::assert_snapshot;
use record::RunState;
use report::chart::{Forest, ForestRow, forest};
use report::{html, pictures};

/// Every tag of a document: name and whether it closes; panics on malformed text.
fn tags(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray > in {:?}", &rest[..start]);
        let mut quote = None;
        let end = rest[start..]
            .char_indices()
            .find(|(_, c)| {
                match (quote, c) {
                    (None, '"' | '\'') => quote = Some(*c),
                    (Some(open), c) if open == *c => quote = None,
                    (None, '>') => return true,
                    _ => {}
                }
                false
            })
            .unwrap()
            .0;
        let tag = &rest[start + 1..start + end];
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        assert!(name.starts_with('!') || name.chars().all(|c| c.is_ascii_alphanumeric()), "{tag}");
        if !tag.ends_with('/') {
            found.push((name.to_owned(), tag.starts_with('/')));
        }
        rest = &rest[start + end + 1..];
        if name == "style" && !tag.starts_with('/') {
            // Style is not markup; it ends at its closing tag.
            rest = &rest[rest.find("</style>").unwrap()..];
        }
    }
    found
}

fn check_balance(name: &str, text: &str) {
    let mut open = Vec::new();
    for (tag, closes) in tags(text) {
        match (tag.as_str(), closes) {
            ("!DOCTYPE" | "meta" | "br" | "input", _) => {}
            (tag, true) => assert_eq!(open.pop().as_deref(), Some(tag), "{name}"),
            (tag, false) => open.push(tag.to_owned()),
        }
    }
    assert_eq!(open, [] as [String; 0], "{name}");
}

#[test]
fn every_page_and_picture_is_well_formed() {
    for (name, run) in sample::all() {
        check_balance(name, &html(&run));
        for picture in pictures(&run) {
            check_balance(&picture.name, &picture.svg.standalone());
        }
    }
}

#[test]
fn a_page_fetches_nothing_and_runs_nothing() {
    for (name, run) in sample::all() {
        let page = html(&run);
        let tags = tags(&page);
        for tag in ["script", "link", "img", "iframe", "object", "base", "form"] {
            assert!(tags.iter().all(|(found, _)| found != tag), "{name}: {tag}");
        }
        for reference in ["src=", "href=", "url(", "@import", " onload", " onclick"] {
            assert!(!page.contains(reference), "{name}: {reference}");
        }
    }
}

#[test]
fn a_page_says_what_the_run_says() {
    let run = sample::tcp_unix();
    let page = html(&run);
    assert!(
        page.contains("unix serves 1.123× tcp (95% CI 1.119–1.128; 12 blocks; 10 connections, ")
    );
    assert!(page.contains("tachograph run flask-gunicorn-nginx --seed 4711"));
    assert!(page.contains("1,837 req/s, latency 5.44 ms mean"));
    assert!(page.contains("AMD EPYC 7B13"));
    assert!(page.contains("area = 184,558 requests"));
    assert!(page.contains("sent 184,558 <b class=\"equal\">=</b> 184,558 completed"));
    assert!(page.contains("block 5 does not count"));
    assert!(page.contains("on a quiet machine the interval would have been about ±0.6%"));
}

#[test]
fn several_parts_are_answered_below_the_question() {
    let page = html(&sample::refused());
    let header = page.split_once("</header>").unwrap().0;
    assert!(header.contains("<li><b>sockets</b>: unix serves 1.123× tcp (1.119–1.128).</li>"));
    assert!(
        header
            .contains("<li><b>short-backlog</b>: INVALID: unix: 58,889 of 199,724 requests failed")
    );
    assert!(header.contains("One *socket* of two kinds."));
    assert!(!page.contains("not quiet"));
}

#[test]
fn an_invalid_run_is_struck_out() {
    let page = html(&sample::invalid());
    assert!(page.contains("<h3>INVALID</h3>"));
    assert!(page.contains("verdict refused\"><div class=\"ratio\"><span>INVALID</span>"));
    assert!(page.contains("served 199,721 <b class=\"unequal\">≠</b> 199,724 completed"));
    assert!(!page.contains("verdict faster"));
    assert_eq!(page.matches("struck\">").count(), 5, "tcp's own figures are sound");
    let late = html(&sample::late());
    assert!(late.contains("verdict faster") && !late.contains("<h3>INVALID</h3>"));
    assert!(late.contains("; no verdict on p50 and p99</li>"));
    assert!(late.contains("class=\"struck\""));
    assert!(!html(&sample::tcp_unix()).contains("class=\"struck\""));
}

#[test]
fn a_run_with_little_in_it_says_so() {
    assert!(html(&sample::interrupted()).contains("<h3>Stopped early</h3>"));
    let cut_off = html(&sample::cut_off());
    assert!(cut_off.contains("<h3>Cut off</h3>"));
    assert!(cut_off.contains("No verdict: there are not enough blocks to compare."));
    assert!(cut_off.contains("no valid data"));

    let mut run = sample::tcp_unix();
    run.parts[0].blocks.clear();
    for variant in &mut run.parts[0].variants {
        variant.summaries.clear();
        variant.skipped = Some("python3 is not installed: apt install python3".to_owned());
    }
    run.parts[0].comparisons.clear();
    run.parts[0].findings.clear();
    let nothing = html(&run);
    check_balance("nothing", &nothing);
    assert!(nothing.contains("Nothing could be measured: every variant was skipped."));
    assert!(nothing.contains("No trial had ended."));
    assert!(!nothing.contains("Every check passed"));

    run.parts[0].variants[0].skipped = None;
    let name = &run.parts[0].variants[0].name;
    let words = format!("No verdict: the variants to compare with {name} were skipped.");
    assert!(html(&run).contains(&words));

    run.parts.clear();
    run.state = RunState::Failed;
    let empty = html(&run);
    check_balance("empty", &empty);
    assert!(empty.contains("Nothing had been measured by the time the run ended."));
}

#[test]
fn a_load_shows_its_figures_and_its_ledger() {
    let page = html(&sample::load());
    assert!(page.contains("<span>1,846</span><small>requests/s</small>"), "{page}");
    assert!(page.contains("Half of the requests took at most 5.30 ms, 99% at most 12.0 ms"));
    assert!(page.contains("service time, closed loop"));
    assert!(page.contains("sent 10,338 <b class=\"equal\">=</b> 10,338 completed"));
    for wrong in ["Nothing was measured", "Provisional", "Too few blocks", "No verdict"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    let open = html(&sample::load_unsustained());
    assert!(open.contains("latency of completed requests, open loop at 2,000 requests/s"));
    assert!(open.contains("<h3>INVALID</h3>") && !open.contains("closed loop"));
}

#[test]
fn blocks_that_did_not_end_show_figures_so_far() {
    let page = html(&sample::hopeless());
    assert!(page.contains("<b>1,851</b>") && page.contains("Provisional: 0 of 6 blocks."));
    assert!(page.contains("No verdict: there are not enough blocks to compare."));
}

#[test]
fn figures_that_are_not_numbers_do_not_break_a_chart() {
    let mut run = sample::tcp_unix();
    let part = &mut run.parts[0];
    part.comparisons[0].judgement.ratio.high = f64::INFINITY;
    part.comparisons[1].judgement.ratio.value = f64::NAN;
    part.comparisons[2].judgement.ratio.low = -1.0;
    part.variants[0].summaries[0].throughput_per_s.value = f64::NAN;
    part.blocks[0].trials[0].window = base::Nanos::ZERO;
    part.blocks[0].trials[1].step = base::Nanos::ZERO;
    part.blocks[1].trials[0].completed_by_step.clear();
    part.blocks[2].trials[3].latency = None;
    part.blocks[3].trials[3].service_time.hdr_v2 = vec![1, 2, 3];
    let page = html(&run);
    check_balance("odd", &page);
    let odd = page.lines().find(|line| line.contains("NaN") || line.contains("inf"));
    assert_eq!(odd, None);
}

#[test]
fn a_picture_stands_alone_in_light_and_dark() {
    let picture = pictures(&sample::tcp_unix()).remove(0);
    assert_eq!(picture.name, "main-ratio");
    assert_eq!(
        picture.caption,
        "Requests per second, relative to tcp. Marks are estimates, lines their intervals; \
         the vertical line is 1, no difference. The open diamond is the published ratio."
    );
    let file = picture.svg.standalone();
    assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(file.contains("@media (prefers-color-scheme: dark)"));
    assert!(file.contains("<title>Requests per second, relative to tcp</title>"));
    assert!(file.contains("<desc>unix: ⚠ 1.123× (1.119–1.128) faster</desc>"));
}

#[test]
fn a_forest_from_plain_numbers() {
    let row = |label: &str, value: f64, low: f64, high: f64, series: usize| ForestRow {
        label: label.to_owned(),
        words: format!("{value}×"),
        value,
        low,
        high,
        series,
        ..ForestRow::default()
    };
    let data = Forest {
        title: "Requests per second, relative to <tcp>".to_owned(),
        description: "unix 1.14, pipe 0.9".to_owned(),
        below: "slower".to_owned(),
        above: "faster".to_owned(),
        rows: vec![
            row("unix & friends", 1.14, 1.12, 1.17, 1),
            ForestRow { published: Some(1.1), invalid: true, ..row("pipe", 0.9, 0.8, 1.0, 2) },
        ],
    };
    assert_snapshot!(forest(&data, 400).inline());
}

/// The sample run with three parts whose answers have so many bytes.
fn of_sizes(sizes: [u64; 3]) -> record::Run {
    let mut run = sample::tcp_unix();
    let part = run.parts.remove(0);
    for size in sizes {
        let mut part = part.clone();
        part.name = format!("{size}B");
        for trial in part.blocks.iter_mut().flat_map(|block| &mut block.trials) {
            trial.payload_bytes = trial.completed_in_window * size;
        }
        run.parts.push(part);
    }
    run
}

#[test]
fn parts_of_growing_answers_are_drawn_by_size() {
    let of_size = |run: &record::Run| -> Vec<(String, String)> {
        let pictures = pictures(run).into_iter();
        let named =
            |name: &str| ["overview-requests", "overview-bytes", "overview-cost"].contains(&name);
        pictures.filter(|p| named(&p.name)).map(|p| (p.name, p.svg.inline())).collect()
    };
    let drawn = of_size(&of_sizes([64, 1024, 65_536]));
    assert_eq!(drawn.len(), 3);
    for (name, text) in &drawn {
        for label in [">64 B<", ">1 KiB<", ">64 KiB<", "unix, 1 KiB: "] {
            assert!(text.contains(label), "{label} is not in {name}: {text}");
        }
    }
    assert_eq!(of_size(&of_sizes([64, 64, 64])), [], "no sizes to tell apart");
    assert_eq!(of_size(&of_sizes([64, 1024, 0])), [], "an answer without bytes");
}

#[test]
fn a_reader_picks_the_baseline_of_the_grid() {
    let mut run = sample::tcp_unix();
    let part = &mut run.parts[0];
    let mut pipe = part.variants[0].clone();
    pipe.name = "pipe".to_owned();
    for summary in &mut pipe.summaries {
        summary.throughput_per_s.value *= 2.0;
    }
    part.variants.push(pipe);
    let mut other = run.parts[0].clone();
    other.name = "other".to_owned();
    run.parts.push(other);
    let page = html(&run);
    assert_eq!(
        page.matches("type=\"radio\" name=\"baseline\"").count(),
        4,
        "own and three variants"
    );
    assert_eq!(page.matches("id=\"baseline-0\" checked").count(), 1);
    for tooltip in
        ["pipe ÷ tcp, other: 2.00×", "tcp ÷ pipe, other: 0.50×", "pipe ÷ pipe, other: 1×"]
    {
        assert!(page.contains(tooltip), "{tooltip} is not in the page");
    }
    // An INVALID variant cannot be a baseline.
    let gap = ledger::Discrepancy { law: ledger::Law::Sent, left: 2, right: 1 };
    let finding =
        record::Finding::of_variant(record::Severity::Invalid, 0, record::Fact::Ledger { gap });
    sample::forbid(&mut run.parts[1], finding, &sample::ALL);
    assert!(!html(&run).contains("pipe ÷ tcp, other"));
}

#[test]
fn a_single_load_was_told_in_the_words_of_a_comparison() {
    for (mut run, offer) in
        [(sample::load(), "closed loop"), (sample::load_unsustained(), "open loop at 2,000")]
    {
        // Requests before the measured trial are in the variant's ledger, but in no figure.
        run.parts[0].variants[0].ledger.counts.sent += 3;
        let sent = run.parts[0].blocks[0].trials[1].ledger.counts.sent;
        let page = html(&run);
        let markdown = report::markdown(&run);
        for text in [&page, &markdown] {
            for word in [
                "Nothing was measured",
                "o verdict",
                "Every check passed",
                "compared",
                "geometric mean",
                "block after block",
                "1 block",
                "95% interval",
                "order of slices",
            ] {
                assert!(!text.contains(word), "'{word}' is in\n{text}");
            }
            assert!(text.contains(offer), "{offer}");
            assert!(text.contains(&format!("sent {} ", base::format_count(sent))), "{text}");
        }
        assert!(markdown.contains("| service time |"), "{markdown}");
    }
}

#[test]
fn the_marks_of_an_axis_repeated_themselves() {
    let mut run = sample::load();
    // A trial so short that all its seconds were labelled 0 or 1.
    run.parts[0].blocks[0].trials[1].completed_by_step.truncate(6);
    let labels = |page: &str| -> Vec<String> {
        let wide = page.rsplit("<div class=\"wide\">").next().unwrap().to_owned();
        let wide = wide.split("<div class=\"narrow\">").next().unwrap().to_owned();
        let texts = wide.split("<text class=\"muted mid small\"").skip(1);
        texts.map(|t| t.split(['>', '<']).nth(1).unwrap().to_owned()).collect()
    };
    let found = labels(&html(&run));
    let mut distinct = found.clone();
    distinct.dedup();
    assert!(found.len() > 2 && found == distinct, "{found:?}");
}

#[test]
fn columns_disappeared_in_a_narrow_window() {
    for run in [sample::tcp_unix(), sample::hostile(), sample::changed(), sample::load()] {
        let page = html(&run);
        let (style, body) = page.split_once("</style>").unwrap();
        // What is hidden is shown in another way: the other width of a chart, the other grids.
        let allowed = [".narrow", ".wide", ".panels > div", ".pick input:not(:checked) + label"];
        for rule in style.split('}').filter(|rule| rule.contains("display: none")) {
            let selector = rule.rsplit('{').nth(1).unwrap().rsplit('\n').next().unwrap().trim();
            assert!(allowed.contains(&selector), "{selector}");
        }
        let tables = body.matches("<table>").count();
        let scrolling = "<div class=\"scroll\" tabindex=\"0\"><table>";
        assert!(tables > 0 && body.matches(scrolling).count() == tables, "{tables}");
    }
}

#[test]
fn a_weakened_verdict_looked_like_a_clean_one() {
    let page = html(&sample::tcp_unix());
    let (_, card) = page.split_once("<div class=\"verdict faster weakened\">").unwrap();
    let (card, _) = card.split_once("</section>").unwrap();
    assert!(card.contains("client-limited") && card.contains("Worker failed to boot"), "{card}");
    let mark =
        "<span class=\"mark\" title=\"warning\">⚠</span><span class=\"unseen\"> warning:</span>";
    assert_eq!(card.matches(mark).count(), 3, "the sentence and two warnings: {card}");
    let (_, table) = page.split_once("<tbody>").unwrap();
    let (table, _) = table.split_once("</tbody>").unwrap();
    assert_eq!(table.matches(mark).count(), 2, "both variants: {table}");
    let mut run = sample::tcp_unix();
    run.parts[0].findings.clear();
    let clean = html(&run);
    let (_, body) = clean.split_once("<body>").unwrap();
    assert!(!body.contains("weakened") && !body.contains('⚠'), "{body}");
}

#[test]
fn percentiles_of_a_rate_that_was_not_sustained_are_marked() {
    let page = html(&sample::overloaded());
    assert!(page.contains("p50 and p99 were not compared: tcp did not sustain 918 requests/s."));
    assert!(page.contains("† tcp did not sustain 918 requests/s: do not compare its percentiles."));
    let (_, table) = page.split_once("<tbody>").unwrap();
    let (table, _) = table.split_once("</tbody>").unwrap();
    let mark = "<sup class=\"mark\" title=\"rate not sustained\">†</sup>\
                <span class=\"unseen\"> (rate not sustained)</span>";
    assert_eq!(table.matches(mark).count(), 3, "p50, p90 and p99 of one variant: {table}");
    assert!(page.contains("tcp †: 50% took at most"), "the curve is marked");
}

#[test]
fn an_estimate_without_an_upper_end_has_an_arrow() {
    let page = html(&sample::unbounded());
    for text in [
        "<td>480 ms<small>≥ 410 ms</small></td>",
        "<td>≥ 37.0 ms</td>",
        "<td>–</td>",
        "An arrow is an end without a bound.",
        "193× (≥ 140) slower",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let (body, _) = page.split_once("NaN").unwrap_or((&page, ""));
    assert_eq!(body.len(), page.len(), "a number that is none is drawn");
}
