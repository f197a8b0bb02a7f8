//! What a person reads in a terminal, an issue or a spreadsheet.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use insta::assert_snapshot;
use stats::{Estimate, Verdict};
use tachograph_report::{LoadReport, Style, csv, markdown, markdown_with_pictures, terminal};

#[test]
fn two_variants_fit_on_one_screen() {
    assert_snapshot!(terminal(&sample::tcp_unix(), &Style::default()));
}

#[test]
fn several_variants_and_one_that_was_skipped() {
    assert_snapshot!(terminal(&sample::layers(), &Style::default()));
}

#[test]
fn an_invalid_run_says_so_above_its_figures() {
    assert_snapshot!(terminal(&sample::invalid(), &Style::default()));
}

#[test]
fn long_commands_stand_above_their_figures() {
    assert_snapshot!(terminal(&sample::hostile(), &Style::default()));
}

#[test]
fn a_run_that_was_stopped_and_one_that_was_killed() {
    assert_snapshot!("stopped", terminal(&sample::interrupted(), &Style::default()));
    assert_snapshot!("killed", terminal(&sample::cut_off(), &Style::default()));
}

#[test]
fn bulk_is_told_in_gigabytes() {
    assert_snapshot!(terminal(&sample::bulk(), &Style::default()));
}

#[test]
fn one_target_fits_on_one_screen() {
    let text = terminal(&sample::load(), &Style::default());
    let report = LoadReport::from_run(&sample::load()).unwrap();
    assert_eq!(report.terminal(&Style::default()), text);
    assert_snapshot!(text);
}

#[test]
fn a_load_that_failed_says_why_and_how_often() {
    let mut report = LoadReport::from_run(&sample::load()).unwrap();
    report.reasons.push("2 of 10338 requests failed: 2 timeout".to_owned());
    report
        .warnings
        .push("The client's threads were busy 97% of the time: add --threads.".to_owned());
    report.ledger.counts.completed -= 2;
    report.ledger.counts.failed = 2;
    report.ledger.errors.insert("timeout".to_owned(), 2);
    report.offered_per_s = Some(2000.0);
    report.latency = Some(report.service_time.clone());
    report.lateness = Some(report.service_time.clone());
    assert_snapshot!(report.terminal(&Style::default()));
}

#[test]
fn plain_text_keeps_to_its_columns_and_has_no_escape_codes() {
    for (name, run) in sample::all() {
        for width in [80, 100] {
            let text = terminal(&run, &Style { colour: false, width });
            assert!(!text.contains('\u{1b}'), "{name}");
            // Commands stay whole, to be copied.
            for line in text.lines().filter(|line| !line.starts_with("repeat")) {
                assert!(line.chars().count() <= width, "{name}: {line}");
            }
        }
    }
}

#[test]
fn colour_changes_no_word() {
    for (name, run) in sample::all() {
        let plain = terminal(&run, &Style::default());
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
    let text = terminal(&run, &Style::default());
    assert!(!text.contains(['\u{1b}', '\u{7}', '\r']));
    assert!(text.lines().all(|line| !line.starts_with("fake line")));
}

#[test]
fn markdown_for_an_issue() {
    assert_snapshot!("markdown", markdown(&sample::tcp_unix()));
    assert_snapshot!("markdown_hostile", markdown(&sample::hostile()));
}

#[test]
fn too_few_blocks_show_no_interval() {
    let run = sample::few_blocks();
    let text = [markdown(&run), terminal(&run, &Style::default())];
    for text in &text {
        assert!(!text.contains("9388685609") && !text.contains("1363.6"), "{text}");
        assert!(text.contains("Too few blocks for a verdict (2 of 6)"), "{text}");
    }
    assert_snapshot!("markdown_few_blocks", text[0]);
}

#[test]
fn a_part_without_any_block_ranks_nothing() {
    let mut run = sample::few_blocks();
    for comparison in &mut run.parts[0].comparisons {
        comparison.blocks = 0;
        comparison.ratio = Estimate { value: f64::NAN, low: 0.0, high: f64::INFINITY };
    }
    let text = markdown(&run);
    assert!(text.contains("**No verdict: there are not enough blocks to compare.**"), "{text}");
    assert!(text.contains("\nNo verdict: no block could be used to compare.\n"), "{text}");
    assert!(!text.contains("fastest is") && !text.contains("serves"), "{text}");
}

#[test]
fn what_is_refused_is_said_once_with_its_cause() {
    let run = sample::refused();
    let page = markdown_with_pictures(&run, "pictures");
    for text in [&page, &terminal(&run, &Style::default())] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.matches("Resource temporarily unavailable").count(), 1, "{text}");
        assert!(!text.contains("not quiet"), "{text}");
        assert!(!text.contains("–×"), "{text}");
    }
    assert_snapshot!("markdown_refused", page);
    assert_snapshot!("refused", terminal(&run, &Style::default()));
}

#[test]
fn only_what_is_refused_is_struck_out() {
    let text = markdown(&sample::invalid());
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows[2].starts_with("| tcp | 1,852 | "), "{}", rows[2]);
    assert!(rows[3].starts_with("| unix | ~~2,073~~ refused | "), "{}", rows[3]);
}

#[test]
fn a_part_that_is_invalid_as_a_whole_says_why_once() {
    let mut run = sample::layers();
    let reason = "2 of 8 blocks were rejected; the machine was not quiet enough to believe them";
    run.parts[0].reasons = vec![reason.to_owned()];
    for comparison in &mut run.parts[0].comparisons {
        comparison.verdict = Verdict::Invalid;
        comparison.sentence = format!("INVALID: {reason}.");
    }
    let text = markdown(&run);
    let told = text.lines().filter(|line| line.starts_with("**INVALID**: ")).count();
    assert_eq!((told, text.matches("not quiet").count()), (1, 2), "there and in the answer");
    assert!(text.contains("- INVALID: granian ÷ gunicorn-sync, as the whole part is.\n"), "{text}");
    assert_eq!(text.matches(" refused | ").count(), 5, "{text}");
}

#[test]
fn findings_that_differ_in_numbers_are_one_line() {
    let mut run = sample::layers();
    for (variant, change) in [(0, -0.14), (1, 0.44), (2, -0.2)] {
        let name = run.parts[0].variants[variant as usize].name.clone();
        run.parts[0].findings.push(record::Finding {
            check: "drift".to_owned(),
            severity: record::Severity::Note,
            block: Some(variant + 1),
            variant: Some(variant),
            value: change,
            limit: 0.05,
            sentence: format!("{name}: throughput changed by {:+.0}%", 100.0 * change),
        });
    }
    let text = markdown(&run);
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("- note: ")).collect();
    assert_eq!(
        notes,
        [
            "- note: throughput changed within blocks: in 3 blocks, by +44% at most (gunicorn-gthread)"
        ]
    );
}

#[test]
fn several_variants_are_summed_up_by_their_extremes() {
    let text = markdown(&sample::layers());
    let answer = text.lines().nth(4).unwrap();
    assert_eq!(
        answer,
        "**Of 4 compared with gunicorn-sync, the fastest is granian, 5.36× (5.28–5.43), \
         the slowest is gunicorn-gthread, 1.005× (0.998–1.012), no difference detected.**"
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
