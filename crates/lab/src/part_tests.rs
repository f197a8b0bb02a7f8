//! What a part comes to where a variant cannot start, or breaks what it is measured by.

use ledger::Counts;

use super::*;
use crate::slices;

const TEXT: &str = r#"
[experiment]
name = "x"
title = "t"
question = "q"
offers = ["closed"]
variant = [
    { name = "sound", target = "http://127.0.0.1:$PORT", process = { command = "x" } },
    { name = "short", target = "http://127.0.0.1:$PORT", process = { command = "x" } },
]
"#;

fn plan() -> spec::Part {
    let text = TEXT.replace("\nvariant = [", "\n[[part]]\nname = \"p\"\nvariant = [");
    spec::parse_plan(&text, "x.toml").unwrap().parts.remove(0)
}

fn trial(variant: u32, completed: u64, failed: u64) -> Trial {
    slices::tests::trial(variant, Counts { completed, failed, ..Counts::default() })
}

fn finding(check: &str, severity: Severity, block: u32, variant: Option<u32>) -> Finding {
    let sentence = format!("{check} in block {block}");
    Finding {
        check: check.to_owned(),
        severity,
        block: Some(block),
        variant,
        value: 1.0,
        limit: 0.0,
        sentence,
    }
}

/// A part of four blocks that all were rejected for these findings.
fn rejected(findings: impl Fn(u32) -> Vec<Finding>) -> Part {
    let mut part = blank(&plan(), &Cpus::divide(spec::Layout::Free, &Default::default(), 1));
    for index in 1..=4 {
        let mut of_block = findings(index);
        let reasons = of_block.iter().filter(|f| f.severity == Severity::Rejected);
        part.blocks.push(Block {
            index,
            started: base::Timestamp::from_second(1_795_000_000).unwrap(),
            elapsed: Nanos::from_secs(1),
            order: vec![0, 1],
            rejected: reasons.map(|f| f.sentence.clone()).collect(),
            canary: [Nanos::ZERO; 2],
            steal: 0.0,
            trials: vec![trial(0, 1000, 0), trial(1, 600, 400)],
            lives: Vec::new(),
        });
        part.findings.append(&mut of_block);
    }
    part.reasons.extend(too_many_rejected(&part));
    analyse::conclude(&plan(), &mut part, false);
    part
}

#[test]
fn what_failed_is_the_reason_and_not_the_machine() {
    let part = rejected(|block| {
        vec![
            finding("errors", Severity::Invalid, block, Some(1)),
            finding("tcp", Severity::Rejected, block, None),
        ]
    });
    assert_eq!(part.reasons, ["no block could be used: errors in block 1"]);
    let sound = &part.variants[0].summaries;
    assert_eq!(sound.len(), 1, "its own trials were sound");
    assert_eq!(sound[0].throughput_per_s.value.round(), 1000.0);
    assert_eq!(part.variants[1].summaries, []);
}

#[test]
fn blocks_that_the_machine_spoilt_show_no_figures() {
    let part = rejected(|block| vec![finding("canary", Severity::Rejected, block, None)]);
    assert_eq!(
        part.reasons,
        [
            "4 of 4 blocks were rejected; the machine was not quiet enough to believe the others",
            "no block could be used; the last reason was: canary in block 4"
        ]
    );
    assert_eq!(part.variants[0].summaries, []);
    let both = rejected(|block| {
        vec![
            finding("errors", Severity::Invalid, block, Some(1)),
            finding("steal", Severity::Rejected, block, None),
        ]
    });
    assert_eq!(both.variants[0].summaries, [], "the machine spoilt the sound variant's trials too");
}

#[test]
fn the_first_able_variant_stands_in_for_a_baseline_that_is_not() {
    let with = |baseline: usize, variants: &[usize]| -> Vec<Contrast> {
        variants.iter().map(|variant| Contrast { baseline, variant: *variant }).collect()
    };
    let star = with(2, &[0, 1, 3]);
    assert_eq!(without_baseline(&star, &[0, 1, 2]), None, "the baseline is able");
    assert_eq!(without_baseline(&star, &[1, 3]), Some((2, with(1, &[3]))));
    assert_eq!(without_baseline(&star, &[3, 1, 0]), Some((2, with(0, &[1, 3]))));
    assert_eq!(without_baseline(&star, &[3]), None, "nothing to compare it with");
    let pairs = [Contrast { baseline: 0, variant: 1 }, Contrast { baseline: 2, variant: 3 }];
    assert_eq!(without_baseline(&pairs, &[1, 2, 3]), None, "pairs are somebody's choice");
    assert_eq!(without_baseline(&[], &[0]), None);
}
