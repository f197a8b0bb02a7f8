use base::Nanos;
use proptest::prelude::*;
use record::Call;

use super::*;

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
    let pairs: Vec<[SampledTrial<'_>; 2]> =
        pairs.iter().map(|pair| [0, 1].map(|side| sampled(&pair[side], requests))).collect();
    let sureness = Sureness { alpha: 0.05, interrupted: false };
    let contrast = spec::Contrast { baseline: 0, variant: 1 };
    Comparison::of(&pairs, sureness).why(&contrast, Offer::Closed)
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
    let pairs: Vec<[SampledTrial<'_>; 2]> =
        pairs.iter().map(|pair| [0, 1].map(|side| sampled(&pair[side], 1.0))).collect();
    let all = Comparison::of(&pairs, Sureness { alpha: 0.05, interrupted: false });
    assert!(!all.calls_itself(2));
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
