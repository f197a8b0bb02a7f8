//! The reports for a terminal, an issue and a spreadsheet.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use insta::assert_snapshot;
use record::Run;
use report::{Style, csv, markdown, markdown_with_pictures, terminal};
use stats::Estimate;

/// The report in 80 columns without colour.
fn plain(run: &Run) -> String {
    terminal(run, &Style::default())
}

/// The words of a text that was broken into lines.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_run_on_one_screen() {
    for (name, run) in [
        ("two_variants_fit_on_one_screen", sample::tcp_unix()),
        ("several_variants_and_one_that_was_skipped", sample::layers()),
        ("profiled", sample::profiled()),
        ("an_invalid_run_says_so_above_its_figures", sample::invalid()),
        ("long_commands_stand_above_their_figures", sample::hostile()),
        ("stopped", sample::interrupted()),
        ("killed", sample::cut_off()),
        ("bulk_is_told_in_gigabytes", sample::bulk()),
        ("one_target_fits_on_one_screen", sample::load()),
        ("a_load_that_failed_says_why_and_how_often", sample::load_unsustained()),
        // A metric that is INVALID leaves the others alone.
        ("late", sample::late()),
        ("uneven", sample::uneven()),
        // Blocks that did not end show figures so far.
        ("hopeless", sample::hopeless()),
        // Percentiles of a rate that was not sustained were not told from others.
        ("overloaded", sample::overloaded()),
        // An estimate without an upper end says so.
        ("unbounded", sample::unbounded()),
        // What is refused is said once with its cause.
        ("refused", sample::refused()),
    ] {
        assert_snapshot!(name, plain(&run));
    }
}

#[test]
fn each_run_in_an_issue() {
    for (name, run) in [
        ("markdown", sample::tcp_unix()),
        ("markdown_hostile", sample::hostile()),
        ("markdown_profiled", sample::profiled()),
        ("markdown_few_blocks", sample::few_blocks()),
        ("markdown_overloaded", sample::overloaded()),
        ("markdown_unbounded", sample::unbounded()),
    ] {
        assert_snapshot!(name, markdown(&run));
    }
    assert_snapshot!("markdown_refused", markdown_with_pictures(&sample::refused(), "pictures"));
}

#[test]
fn what_each_change_does_is_told_after_the_parts() {
    let mut run = sample::changed();
    let text = plain(&run);
    let (_, told) = text.split_once("\nWhat each change does\n").unwrap();
    let (told, _) = told.split_once("\nmachine").unwrap();
    assert_snapshot!("changes", told);
    let page = markdown(&run);
    let (_, table) = page.split_once("### What each change does\n\n").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    assert_snapshot!("markdown_changes", table);
    // Too few blocks have no effect, and what is not there has no row.
    run.parts[2].comparisons[0].judgement.verdict = stats::Verdict::Inconclusive;
    run.parts[2].comparisons[0].judgement.blocks = 3;
    run.parts.remove(0);
    let page = markdown(&run);
    let rows: Vec<&str> = page.lines().filter(|line| line.contains(" → ")).collect();
    assert_eq!(rows.len(), 1, "{page}");
    assert!(rows[0].ends_with("× so far | – |"), "{}", rows[0]);
    run.parts.remove(0);
    assert!(!markdown(&run).contains("change"), "{page}");
}

#[test]
fn a_load_is_answered_by_its_throughput() {
    let text = markdown(&sample::load());
    assert!(text.contains("\n**http://127.0.0.1:8000/ serves 1,846 requests/s.**\n"), "{text}");
    assert!(!text.contains("No verdict") && !text.contains("rovisional"), "{text}");
}

#[test]
fn what_is_unknown_of_a_client_is_said_to_be() {
    let mut run = sample::load();
    run.parts[0].load.engines.clear();
    run.parts[0].blocks[0].trials[1].client.clear();
    let text = plain(&run);
    let line = "client     CPU per request unknown, 1 thread, I/O backend unknown\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn percentiles_of_a_rate_that_was_not_sustained_were_not_told_from_others() {
    let (a, b) = (sample::overloaded(), sample::tcp_unix());
    assert_snapshot!("beside_overloaded", report::beside(&a, &b, &Style::default()));
}

#[test]
fn only_the_comparisons_of_what_did_not_sustain_its_rate_are_missing() {
    let mut run = sample::overloaded();
    let part = &mut run.parts[0];
    let mut third = part.variants[1].clone();
    third.name = "pipe".to_owned();
    part.variants.push(third);
    let mut of_third: Vec<_> = part.comparisons.clone();
    of_third.iter_mut().for_each(|comparison| comparison.variant = 2);
    part.comparisons.extend(of_third);
    let note = |run: &Run| {
        let text = plain(run);
        let found = text.split("note: ").nth(1).unwrap_or_default();
        unbroken(found.split("\nunadjusted").next().unwrap_or_default())
    };
    let told = note(&run);
    let all = "p50 and p99 were not compared: tcp did not sustain 918 requests/s";
    assert!(told.starts_with(all), "{told}");
    // If it is not the baseline, the others are compared.
    run.parts[0].findings[0].variant = Some(2);
    let mut p99 = run.parts[0].comparisons[0].clone();
    (p99.metric, p99.offer, p99.primary) = (record::Metric::P99, record::Offer::Open, false);
    let mut p50 = p99.clone();
    p50.metric = record::Metric::P50;
    run.parts[0].comparisons.extend([p50, p99]);
    let told = note(&run);
    let one = "p50 and p99 of pipe were not compared: it did not sustain 918 requests/s";
    assert!(told.starts_with(one), "{told}");
}

#[test]
fn a_warning_is_beside_the_verdict_that_it_weakens() {
    let mut run = sample::layers();
    let warning =
        |variant, fact| record::Finding::of_variant(record::Severity::Warning, variant, fact);
    let part = &mut run.parts[0];
    part.findings = vec![
        warning(3, record::Fact::NullServer { factor: 1.4, limit: 3.0 }),
        warning(0, record::Fact::NotSteady { trials: 9, of: 16 }),
    ];
    assert_snapshot!("weakened", plain(&run));
    let page = markdown(&run);
    let (_, verdicts) = page.split_once("- ⚠ ").unwrap();
    let (verdicts, _) = verdicts.split_once("<details>").unwrap();
    assert_snapshot!("markdown_weakened", verdicts);
    let answer = page.lines().nth(4).unwrap();
    assert!(answer.contains("the fastest is ⚠ granian, 5.33×"), "{answer}");
    // One that is about granian alone leaves the others clean.
    run.parts[0].findings.truncate(1);
    let answer = markdown(&run).lines().nth(4).unwrap().to_owned();
    assert_eq!(answer.matches('⚠').count(), 1, "{answer}");
}

#[test]
fn what_weakens_one_verdict_and_forbids_another_says_both() {
    let mut run = sample::late();
    let part = &mut run.parts[0];
    part.findings.clear();
    let fact = record::Fact::NotSteady { trials: 9, of: 16 };
    let finding = record::Finding::of_variant(record::Severity::Warning, 1, fact);
    part.comparisons.iter_mut().for_each(|comparison| comparison.because.clear());
    sample::forbid(part, finding, &[record::Metric::P50, record::Metric::P99]);
    let text = unbroken(&plain(&run));
    let told = "stack on CPU 0). warning: unix is not steady: its throughput changed within 9 of 16 \
                trials; no verdict on p50 and p99 unadjusted: ";
    assert!(text.contains(told), "{text}");
    assert_eq!(text.matches("not steady").count(), 1, "{text}");
}

#[test]
fn what_crossing_cpus_costs_is_told_once() {
    let run = sample::bulk();
    for text in [plain(&run), markdown(&run), report::html(&run)] {
        let brief = "rossing CPUs adds about 18 µs to every request of all variants";
        assert_eq!(text.matches(brief).count(), 1, "{text}");
    }
    let mut run = run;
    run.parts[1].layout = record::Layout::default();
    let text = markdown(&run);
    assert!(
        text.contains("Crossing CPUs adds about 18 µs to every request of the variants of bulk")
    );
    let (_, details) = text.split_once("<details><summary>Crossing").unwrap();
    let (_, why) = details.split_once("\n\n").unwrap();
    assert_eq!(
        why.lines().next(),
        Some(
            "Client and stack are on separate CPUs. Waking a thread took 20.6 µs on another CPU and \
             2.94 µs on the same one. Ratios of short requests are therefore closer to 1 than on \
             one CPU."
        )
    );
    run.parts.truncate(1);
    run.parts[0].layout.client = run.parts[0].layout.stack.clone();
    assert!(!plain(&run).contains("crossing"));
}

#[test]
fn plain_text_keeps_to_its_columns_and_has_no_escape_codes() {
    for (name, run) in sample::all() {
        for width in [80, 100] {
            let text = terminal(&run, &Style { colour: false, width });
            assert!(!text.contains('\u{1b}'), "{name}");
            // Commands are not wrapped, so that they can be copied.
            for line in text.lines().filter(|line| !line.starts_with("repeat")) {
                assert!(line.chars().count() <= width, "{name}: {line}");
            }
        }
    }
}

#[test]
fn colour_changes_no_word() {
    for (name, run) in sample::all() {
        let plain = plain(&run);
        let coloured = terminal(&run, &Style { colour: true, width: 80 });
        assert_ne!(plain, coloured);
        let mut stripped = String::new();
        let mut pieces = coloured.split('\u{1b}');
        stripped += pieces.next().unwrap();
        for piece in pieces {
            stripped += piece.split_once('m').unwrap().1;
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&stripped), words(&plain), "{name}");
    }
}

#[test]
fn control_characters_of_a_name_never_reach_the_terminal() {
    let mut run = sample::tcp_unix();
    run.parts[0].variants[0].name = "tcp\u{1b}]0;owned\u{7}\r\nfake line".to_owned();
    run.title = "a\u{1b}[2Jb".to_owned();
    let text = plain(&run);
    assert!(!text.contains(['\u{1b}', '\u{7}', '\r']));
    assert!(text.lines().all(|line| !line.starts_with("fake line")));
}

#[test]
fn too_few_blocks_show_no_interval() {
    let run = sample::few_blocks();
    for text in [markdown(&run), plain(&run)] {
        assert!(!text.contains("9388685609") && !text.contains("1363.6"), "{text}");
        assert!(text.contains("Too few blocks for a verdict (2 of 6)"), "{text}");
    }
}

#[test]
fn a_part_without_any_block_ranks_nothing() {
    let mut run = sample::few_blocks();
    for comparison in &mut run.parts[0].comparisons {
        comparison.judgement.blocks = 0;
        comparison.judgement.ratio = Estimate { value: f64::NAN, low: 0.0, high: f64::INFINITY };
    }
    let text = markdown(&run);
    assert!(text.contains("**No verdict: there are not enough blocks to compare.**"), "{text}");
    assert!(text.contains("\nNo verdict: no block could be compared.\n"), "{text}");
    assert!(!text.contains("fastest is") && !text.contains("serves"), "{text}");
}

#[test]
fn what_is_refused_is_said_once_with_its_cause() {
    let run = sample::refused();
    for text in [markdown_with_pictures(&run, "pictures"), plain(&run)] {
        let text = unbroken(&text);
        assert_eq!(text.matches("Resource temporarily unavailable").count(), 1, "{text}");
        assert!(!text.contains("–×"), "{text}");
    }
}

#[test]
fn only_what_is_invalid_is_struck_out() {
    let rows = |run: &Run| -> Vec<String> {
        let text = markdown(run);
        text.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect()
    };
    let invalid = rows(&sample::invalid());
    assert!(invalid[2].starts_with("| tcp | ⚠ 1,829 | "), "{}", invalid[2]);
    assert!(invalid[3].starts_with("| unix | ~~2,054~~ INVALID | "), "{}", invalid[3]);
    let late = rows(&sample::late());
    assert!(
        late[3].starts_with("| unix | ⚠ 2,054 | 2,038–2,070 | ~~824 µs~~ INVALID |"),
        "{}",
        late[3]
    );
}

#[test]
fn verdicts_that_share_a_reason_tell_it_once() {
    let mut run = sample::layers();
    let fact = record::Fact::Throttled { times: 3 };
    let finding =
        record::Finding { severity: record::Severity::Invalid, block: None, variant: None, fact };
    sample::forbid(&mut run.parts[0], finding, &sample::ALL);
    let text = markdown(&run);
    let invalid = text.lines().filter(|line| line.starts_with("**INVALID**: ")).count();
    assert_eq!(
        (invalid, text.matches("throttled").count()),
        (1, 2),
        "there and in the answer: {text}"
    );
    assert!(text.contains("- granian ÷ gunicorn-sync: INVALID (see above).\n"), "{text}");
    assert_eq!(text.matches("~~ INVALID | ").count(), 5 * 2, "rate and CPU of five: {text}");
}

#[test]
fn each_baseline_is_summed_up_once_in_any_order() {
    let mut run = sample::layers();
    let part = &mut run.parts[0];
    let at = part.comparisons.iter().position(|c| c.primary).unwrap();
    let other = record::Comparison { baseline: 2, variant: 3, ..part.comparisons[at].clone() };
    part.comparisons.insert(at + 1, other);
    let text = markdown(&run);
    let answer = text.lines().nth(4).unwrap();
    assert_eq!(answer.matches("compared with gunicorn-sync").count(), 1, "{answer}");
    assert_eq!(answer.matches("granian serves").count(), 1, "{answer}");
}

#[test]
fn several_variants_are_summed_up_by_their_extremes() {
    let text = markdown(&sample::layers());
    let answer = text.lines().nth(4).unwrap();
    assert_eq!(
        answer,
        "**Of 4 compared with gunicorn-sync, the fastest is granian, 5.33× (5.27–5.39), \
         the slowest is gunicorn-gthread, 0.995× (0.987–1.002), no difference detected.**"
    );
}

#[test]
fn csv_has_one_row_per_trial() {
    let run = sample::tcp_unix();
    let text = csv(&run);
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 1 + 13 * 4);
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()));
    assert_snapshot!("csv", lines[..3].join("\n"));
}

#[test]
fn two_runs_could_not_be_seen_side_by_side() {
    let (a, mut b) = (sample::tcp_unix(), sample::tcp_unix());
    b.started += std::time::Duration::from_secs(7200);
    let text = report::beside(&a, &b, &Style::default());
    assert!(text.contains("requests/s") && text.contains("1.00×"), "{text}");
    assert!(text.contains("No verdict: the runs began 120 min apart"), "{text}");
    let (load, open) = (sample::load(), sample::load_unsustained());
    let text = report::beside(&load, &open, &Style::default());
    assert!(text.contains("Their loads differ."), "{text}");
    assert!(text.contains("INVALID: do not use these figures."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        report::beside(&a, &load, &Style::default()).contains("no variant in common"),
        "{text}"
    );
}

#[test]
fn a_table_was_wider_than_a_narrow_terminal() {
    for width in [40, 50, 60, 70, 80] {
        let style = Style { colour: false, width };
        for run in [sample::load(), sample::load_unsustained(), sample::tcp_unix()] {
            let text = terminal(&run, &style);
            // What is to be copied is never wrapped.
            let own = |line: &&str| !line.contains("tachograph ") && !line.contains("http://");
            let long: Vec<&str> =
                text.lines().filter(own).filter(|line| line.chars().count() > width).collect();
            assert_eq!(long, [""; 0], "at {width} columns");
        }
    }
}

#[test]
fn a_client_thread_was_busy_for_more_than_all_of_the_time() {
    let mut run = sample::load();
    for thread in &mut run.parts[0].blocks[0].trials[1].client {
        thread.wall = base::Nanos(1);
    }
    let text = plain(&run);
    assert!(text.contains("100% busy"), "{text}");
}

#[test]
fn the_hypervisor_was_a_hypervisor() {
    let mut run = sample::tcp_unix();
    for (name, line, row) in [
        (None, None, "<dt>virtualised</dt><dd>no</dd>"),
        (Some("unnamed"), Some(", virtual machine"), "<dt>virtualised</dt><dd>yes</dd>"),
        (Some("a hypervisor"), Some(", virtual machine"), "<dt>virtualised</dt><dd>yes</dd>"),
        (Some("KVM"), Some("machine (KVM)"), "<dt>virtualised</dt><dd>yes (KVM)</dd>"),
    ] {
        run.machine.hypervisor = name.map(str::to_owned);
        let (page, text) = (report::html(&run), markdown(&run));
        assert!(page.contains(row), "{name:?}");
        assert_eq!(text.contains("irtual machine"), name.is_some(), "{text}");
        assert!(line.is_none_or(|line| text.contains(line)), "{text}");
        assert!(!text.contains("a hypervisor"), "{text}");
    }
}
