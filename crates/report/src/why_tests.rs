use record::{Call, FunctionDifference, Offer, Profile};

use super::*;

fn estimate(value: f64, half: f64) -> Estimate {
    Estimate { value, low: value - half, high: value + half }
}

fn cost(baseline_ns: f64, variant_ns: f64, half: f64) -> CostDifference {
    CostDifference {
        baseline_ns,
        variant_ns,
        difference_ns: estimate(variant_ns - baseline_ns, half),
    }
}

fn function(name: &str, module: &str) -> Function {
    Function { name: Some(name.to_owned()), module: module.to_owned(), is_program: false }
}

fn why(functions: usize) -> Why {
    let row = |index: usize| {
        let own = cost(1_000.0, 2_000.0 - index as f64, 100.0);
        let function = function(&format!("f{index}"), "app.py");
        FunctionDifference { function, own, with_callees: cost(1_500.0, 2_900.0, 130.0) }
    };
    Why {
        baseline: Some(0),
        variant: 1,
        offer: Offer::Closed,
        blocks: 12,
        tested: 140,
        own: cost(40_000.0, 52_000.0, 900.0),
        counted: cost(40_100.0, 52_200.0, 900.0),
        interrupts: cost(0.0, 0.0, 0.0),
        functions: (0..functions).map(row).collect(),
        kernel_functions: Vec::new(),
        others: cost(28_000.0, 28_100.0, 300.0),
        other_functions: 311,
        unnamed: cost(10.0, 12.0, 5.0),
        with_callees: Vec::new(),
        groups: Vec::new(),
        calls: Vec::new(),
        waits: None,
        system_calls: Vec::new(),
    }
}

#[test]
fn more_than_ten_functions_are_one_row() {
    let rows = rows(&why(12));
    assert_eq!(rows.len(), 13);
    assert_eq!(rows[0].cells[2], "+1.00 (+0.90 to +1.10)");
    assert_eq!(rows[10].name, "2 more that differ");
    assert_eq!(rows[10].cells, ["2.00", "3.98", "+1.98", ""]);
    assert_eq!(rows[11].name, "311 other functions, and what has no name");
    assert_eq!(rows[12].cells[..2], ["40.00", "52.00"]);
}

#[test]
fn nothing_has_no_sign_and_a_unit_fits_all_rows() {
    let unit = CostUnit::of(&why(0));
    assert_eq!(
        [unit.signed(-1.0), unit.signed(-1_234.0), unit.signed(50.0)],
        ["0.00", "−1.23", "+0.05"]
    );
    let long = Why { own: cost(2e6, 3e6, 1e5), ..why(0) };
    assert_eq!(
        (CostUnit::of(&long).word(), CostUnit::of(&long).number(2e6)),
        ("ms", "2.000".to_owned())
    );
    assert_eq!(rows(&why(0))[0].name, "311 functions, and what has no name");
}

#[test]
fn lines_fit_into_every_terminal() {
    let part = Part {
        variants: ["tcp", "a variant with a long name"]
            .map(|name| record::Variant { name: name.to_owned(), ..record::Variant::default() })
            .to_vec(),
        ..Part::default()
    };
    for columns in [40, 60, 80, 160] {
        let lines = lines(&part, &why(12), columns);
        assert_eq!(lines.len(), 14);
        assert!(
            lines.iter().all(|line| crate::text::width(line) <= columns),
            "{columns}: {lines:#?}"
        );
        assert!(lines[1].contains("f0") && lines[1].contains("+1.00"), "{}", lines[1]);
    }
    assert!(lines(&part, &why(1), 160)[0].contains("a variant wit…, µs"));
}

#[test]
fn folded_stacks_have_all_samples() {
    let call = |function, caller, samples| Call { function, caller, samples };
    let profile = Profile {
        functions: vec![function("main", "a;b"), function("work", "app")],
        calls: vec![call(0, None, 2), call(1, Some(0), 3)],
        ..Profile::default()
    };
    let twice = [&profile, &profile].into_iter();
    assert_eq!(fold(twice), "main [a:b] 4\nmain [a:b];work [app] 6\n");
}

#[test]
fn what_has_no_name_comes_with_a_hint() {
    let call = |name: Option<&str>, module: &str, ns: f64| record::CallDifference {
        function: Function {
            name: name.map(str::to_owned),
            module: module.to_owned(),
            is_program: false,
        },
        caller: None,
        with_callees: cost(ns, ns, 1.0),
    };
    let mut named = why(1);
    named.calls = vec![call(Some("main"), "app", 40_000.0), call(None, "ld.so", 100.0)];
    assert_eq!(hints(&named), [""; 0]);
    let mut unnamed = why(1);
    unnamed.calls = vec![
        call(Some("_PyEval_EvalFrameDefault"), "python3.11", 30_000.0),
        call(None, "app", 9_000.0),
        call(None, "app", 8_000.0),
        call(None, Function::KERNEL, 9_000.0),
    ];
    let hints = hints(&unnamed);
    assert_eq!(hints.len(), 3, "{hints:?}");
    assert!(hints[0].contains("Python 3.12"));
    assert!(hints[1].starts_with("functions of app have no names here: install its debug symbols"));
    assert!(hints[2].contains("kernel.kptr_restrict"));
}
