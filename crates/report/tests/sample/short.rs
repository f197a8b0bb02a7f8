//! Runs with too little data for a verdict.

use super::*;

fn compare(id: &str, part: Part) -> Run {
    run(id, RunKind::Compare, "compare", "tcp against unix", "Which serves more?", vec![part])
}

/// Stopped by Ctrl-C after five blocks.
pub(crate) fn interrupted() -> Run {
    let mut part = part(3, &[TCP, UNIX], 5, None, at());
    for comparison in &mut part.comparisons {
        let judgement = &mut comparison.judgement;
        judgement.anytime = true;
        judgement.ratio.low *= 0.97;
        judgement.ratio.high *= 1.03;
    }
    let mut run = compare("20261121-100000-stop", part);
    run.state = RunState::Interrupted;
    run
}

/// Killed before the end of the first block.
pub(crate) fn cut_off() -> Run {
    let mut part = part(4, &[TCP, UNIX], 1, None, at());
    part.blocks[0].state = BlockState::Unfinished;
    part.blocks[0].trials.truncate(1);
    part.comparisons.clear();
    part.disturbance = None;
    for variant in &mut part.variants {
        variant.summaries.clear();
        variant.ledger = Ledger::default();
    }
    let mut run = compare("20261121-110000-kill", part);
    run.state = RunState::Running;
    run.finished = None;
    run
}

/// The layers with too few blocks for a decision, one of them with an interval of thousands.
pub(crate) fn few_blocks() -> Run {
    let mut run = layers();
    let part = &mut run.parts[0];
    part.blocks.truncate(2);
    for comparison in &mut part.comparisons {
        let judgement = &mut comparison.judgement;
        judgement.blocks = 2;
        judgement.verdict = Verdict::Inconclusive;
        judgement.ratio.low = 0.0;
        judgement.ratio.high = 9_388_685_609.0;
        judgement.more_blocks = Some(183_823);
    }
    run
}

/// No complete block, but trials of each.
pub(crate) fn hopeless() -> Run {
    let mut part = part(9, &[TCP, UNIX], 3, Some(918.0), at());
    part.comparisons.clear();
    for variant in &mut part.variants {
        variant.summaries.clear();
    }
    for block in &mut part.blocks {
        block.state = BlockState::Failed;
        part.findings.push(Finding {
            severity: Severity::Warning,
            block: Some(block.index),
            variant: Some(1),
            fact: Fact::StackFailed { error: "gunicorn ended with status 3".to_owned() },
        });
    }
    compare("20261121-140000-none", part)
}
