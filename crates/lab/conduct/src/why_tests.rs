use base::Nanos;
use proptest::prelude::*;
use record::Call;

use super::*;

const SURENESS: Sureness = Sureness { alpha: 0.05, interrupted: false };

fn function(name: &str, module: &str) -> Function {
    Function { name: Some(name.to_owned()), module: module.to_owned(), is_program: module == "srv" }
}

/// A program whose `main` calls functions, which take so many samples.
fn profile(program: &str, samples: &[u64]) -> Profile {
    let process = Function { is_program: true, ..function(program, Function::PROCESS) };
    let main = Function { is_program: true, ..function("main", program) };
    let mut functions = vec![process, main];
    let mut calls = vec![
        Call { function: 0, caller: None, samples: 0 },
        Call { function: 1, caller: Some(0), samples: 0 },
    ];
    for (index, samples) in samples.iter().enumerate() {
        let called = function(&format!("f{index}"), program);
        functions.push(Function { is_program: true, ..called });
        calls.push(Call { function: index as u32 + 2, caller: Some(1), samples: *samples });
    }
    Profile { period: Nanos::from_millis(1), functions, calls, ..Profile::default() }
}

fn sampled(profile: &Profile, requests: f64) -> SampledTrial<'_> {
    SampledTrial { profile, requests, counted_ns: profile.cpu().0 as f64 / requests }
}

fn why_of(pairs: &[[Profile; 2]], requests: f64) -> Why {
    let pairs: Vec<Pair<'_>> =
        pairs.iter().map(|pair| [0, 1].map(|side| Some(sampled(&pair[side], requests)))).collect();
    Comparison::of(&pairs, SURENESS).why([Some(0), Some(1)], Offer::Closed)
}

#[test]
fn the_function_that_became_slower_is_named_and_the_rest_is_one_row() {
    let pairs: Vec<[Profile; 2]> = (0..8)
        .map(|block| {
            let noise = [[3, 5, 4, 2][block % 4], [4, 2, 5, 3][block % 4]];
            let base = profile("old", &[1000 + noise[0], 500 + noise[1], 800]);
            let head = profile("new", &[1000 + noise[1], 600 + noise[0], 800]);
            [base, head]
        })
        .collect();
    let why = why_of(&pairs, 1000.0);
    let names: Vec<_> = why.functions.iter().map(|row| row.function.name.as_deref()).collect();
    assert_eq!(names, [Some("f1")], "{why:?}");
    assert_eq!(why.functions[0].function.module, "old / new");
    assert!((why.functions[0].own.difference_ns.value - 100_000.0).abs() < 2_000.0);
    assert_eq!(why.other_functions, 2);
    let whole: Vec<_> = why.with_callees.iter().map(|row| row.function.name.as_deref()).collect();
    assert_eq!(whole, [Some("old / new"), Some("main")]);
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let mut one = profile("srv", &[10]);
    let again = one.calls.len() as u32;
    one.calls.push(Call { function: 2, caller: Some(again - 1), samples: 5 });
    let why = why_of(&[[one.clone(), one.clone()], [one.clone(), one]], 1.0);
    let recursive = why.calls.iter().filter(|call| call.function.name.as_deref() == Some("f0"));
    assert_eq!(recursive.count(), 2);
    let pairs = [[profile("srv", &[1]), profile("srv", &[1])]];
    let pairs: Vec<Pair<'_>> =
        pairs.iter().map(|pair| [0, 1].map(|side| Some(sampled(&pair[side], 1.0)))).collect();
    let all = Comparison::of(&pairs, SURENESS);
    assert!(!all.calls_itself(2));
}

#[test]
fn a_module_with_many_small_functions_is_one_row() {
    // 200 functions of a library, each 0.17% of the time, which become 4% slower together.
    let with_library = |program: u64, each: u64| {
        let mut profile = profile("srv", &[program]);
        for index in 0..200 {
            let function = function(&format!("l{index}"), "libx.so");
            profile.functions.push(function);
            let function = profile.functions.len() as u32 - 1;
            profile.calls.push(Call { function, caller: Some(1), samples: each });
        }
        profile
    };
    let pairs: Vec<[Profile; 2]> = (0..8)
        .map(|block| {
            let noise = [3, 5, 4, 2][block % 4];
            [with_library(20_000 + noise, 50), with_library(20_007 - noise, 52)]
        })
        .collect();
    let why = why_of(&pairs, 1000.0);
    let [row] = why.functions.as_slice() else { panic!("{:?}", why.functions) };
    assert!(row.function.is_module());
    assert_eq!(row.function.name.as_deref(), Some("libx.so"));
    assert!((row.own.difference_ns.value - 400_000.0).abs() < 1.0);
    assert_eq!(why.other_functions, 1);
}

#[test]
fn a_variant_without_another_needs_its_time_for_its_functions() {
    let profile = profile("srv", &[900, 100, 1]);
    let pairs = [[None, Some(sampled(&profile, 1000.0))]];
    let why = Comparison::of(&pairs, SURENESS).why([None, Some(0)], Offer::Closed);
    let [first, second] = why.functions.as_slice() else { panic!("{:?}", why.functions) };
    assert_eq!(first.function.name.as_deref(), Some("f0"));
    assert_eq!((first.own.baseline_ns, first.own.variant_ns), (0.0, 900_000.0));
    // 900 samples: Student's share of Poisson's deviation, 30 samples.
    let half = first.own.difference_ns.high - 900_000.0;
    assert!((60_000.0..110_000.0).contains(&half), "{half}");
    assert_eq!(second.own.variant_ns, 100_000.0);
    assert_eq!(why.others.variant_ns, 1_000.0);
}

#[test]
fn what_is_missing_or_too_much_has_a_known_cause_or_none() {
    let gap = |sampled_ms, counted_ms, switches, stolen| {
        gap_of(Nanos::from_millis(sampled_ms), Nanos::from_millis(counted_ms), switches, stolen)
    };
    // 5 µs for each time that a thread is woken.
    assert_eq!(gap(950, 1000, 10_000, 0.0), Some(ProfileGap::Waking));
    assert_eq!(gap(950, 1000, 9_999, 0.5), None, "stolen time is missing in no sample");
    // 5% of all time is 5.3% of the rest.
    assert_eq!(gap(1052, 1000, 0, 0.05), Some(ProfileGap::Steal));
    assert_eq!(gap(1054, 1000, 1_000_000, 0.05), None);
    assert_eq!(gap(1050, 1000, 0, f64::NAN), None, "without any slice nothing is known");
}

proptest! {
    #[test]
    fn a_difference_is_the_sum_of_its_rows(
        blocks in prop::collection::vec(prop::collection::vec((0_u64..500, 0_u64..500), 6), 2..12)
    ) {
        let pairs: Vec<[Profile; 2]> = blocks
            .iter()
            .map(|costs| {
                let side = |of: fn(&(u64, u64)) -> u64| costs.iter().map(of).collect::<Vec<u64>>();
                [profile("srv", &side(|c| c.0)), profile("srv", &side(|c| c.1))]
            })
            .collect();
        let why = why_of(&pairs, 7.0);
        let rows: f64 = why.functions.iter().map(|row| row.own.difference_ns.value).sum();
        let sum = rows + why.others.difference_ns.value;
        let whole = why.own.difference_ns.value;
        prop_assert!((sum - whole).abs() <= 1e-6 * whole.abs().max(1.0), "{} {}", sum, whole);
        let groups: f64 = why.groups.iter().map(|group| group.own.difference_ns.value).sum();
        prop_assert!((groups - whole).abs() <= 1e-6 * whole.abs().max(1.0));
        prop_assert!((why.counted.difference_ns.value - whole).abs() <= 1e-6 * whole.abs().max(1.0));
        for call in &why.calls {
            prop_assert!(call.caller.is_none_or(|caller| (caller as usize) < why.calls.len()));
        }
    }
}
