//! Our functions against the real graphite-web, briefly.

use base::Seed;
use proofs::render::{compare, uncovered};

#[test]
fn graphite_web_gives_the_same_answers() {
    let agreement = match compare(Seed(1), 1, &mut |_| ()) {
        Ok(agreement) => agreement,
        Err(error) => panic!("the comparison with graphite-web needs PyPI: {error}"),
    };
    assert!(agreement.different.is_empty(), "{:#?}", agreement.different);
    assert!(agreement.values > 10_000, "{agreement:?}");
}

#[test]
fn every_function_is_compared() {
    // timeSlice reads its times without a zone, in that of the machine.
    assert_eq!(uncovered(), ["timeSlice"]);
}
