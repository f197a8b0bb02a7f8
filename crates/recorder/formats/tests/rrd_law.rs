//! A damaged dump is read or refused, and gives each instant once.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use formats::files::Rrd;
use proptest::prelude::*;

const DUMP: &str = "<rrd><version>0003</version><step>10</step><lastupdate>1430701301</lastupdate>\
    <ds><name>a</name><type>GAUGE</type><minimal_heartbeat>20</minimal_heartbeat><min>NaN</min>\
    <max>1e3</max><last_ds>30</last_ds><value>3e1</value><unknown_sec>0</unknown_sec></ds>\
    <rra><cf>AVERAGE</cf><pdp_per_row>1</pdp_per_row><params><xff>0.5</xff></params>\
    <cdp_prep><ds><value>NaN</value><unknown_datapoints>0</unknown_datapoints></ds></cdp_prep>\
    <database><row><v>22</v></row><row><v>NaN</v></row><row><v>30</v></row></database></rra>\
    <rra><cf>AVERAGE</cf><pdp_per_row>3</pdp_per_row><xff>0.5</xff>\
    <database><row><v>1</v></row><row><v>2</v></row></database></rra></rrd>";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_dumps_are_read_or_refused(
        cuts in prop::collection::vec((0..DUMP.len(), 0_usize..12, "[-0-9a-zA-Z<>/. ]{0,12}"), 0..4),
    ) {
        let mut dump = DUMP.to_owned();
        for (from, len, text) in cuts {
            let from = from.min(dump.len());
            let to = (from + len).min(dump.len());
            dump.replace_range(from..to, &text);
        }
        let Ok(rrd) = Rrd::read(dump.as_bytes()) else { return Ok(()) };
        for field in rrd.extract() {
            for pair in field.stretches.windows(2) {
                prop_assert!(pair[0].end_us <= pair[1].start_us);
            }
        }
        for source in 0..rrd.sources.len() {
            let _ = rrd.resume(source);
        }
    }
}

#[test]
fn the_undamaged_dump_is_read() {
    let rrd = Rrd::read(DUMP.as_bytes()).unwrap();
    assert_eq!(rrd.extract()[0].stretches.len(), 4);
    assert_eq!(rrd.resume(0).unwrap().unwrap().rows.len(), 5);
}
