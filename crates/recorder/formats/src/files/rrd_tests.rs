use super::*;

/// The output of RRDtool 1.7.2 for the updates of the experiment `series-accuracy`, shortened.
const DUMP: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE rrd SYSTEM "https://oss.oetiker.ch/rrdtool/rrdtool.dtd">
<!-- Round Robin Database Dump -->
<rrd>
	<version>0003</version>
	<step>10</step> <!-- Seconds -->
	<lastupdate>1430701301</lastupdate> <!-- 2015-05-04 01:01:41 UTC -->
	<ds>
		<name> sold </name>
		<type> GAUGE </type>
		<minimal_heartbeat>20</minimal_heartbeat>
		<min>NaN</min>
		<max>1.0000000000e+03</max>
		<!-- PDP Status -->
		<last_ds>30</last_ds>
		<value>3.0000000000e+01</value>
		<unknown_sec> 0 </unknown_sec>
	</ds>
	<rra>
		<cf>AVERAGE</cf>
		<pdp_per_row>1</pdp_per_row> <!-- 10 seconds -->
		<params><xff>5.0000000000e-01</xff></params>
		<cdp_prep><ds>
			<primary_value>3.0000000000e+01</primary_value>
			<value>NaN</value>
			<unknown_datapoints>0</unknown_datapoints>
		</ds></cdp_prep>
		<database>
			<!-- 2015-05-04 01:01:30 UTC / 1430701290 --> <row><v>2.2000000000e+01</v></row>
			<!-- 2015-05-04 01:01:40 UTC / 1430701300 --> <row><v>3.0000000000e+01</v></row>
		</database>
	</rra>
	<rra>
		<cf>AVERAGE</cf>
		<pdp_per_row>3</pdp_per_row>
		<params><xff>5.0000000000e-01</xff></params>
		<cdp_prep><ds><value>3.0000000000e+01</value><unknown_datapoints>1</unknown_datapoints></ds></cdp_prep>
		<database>
			<row><v>NaN</v></row>
			<row><v>3.6000000000e+01</v></row>
		</database>
	</rra>
	<rra>
		<cf>HWPREDICT</cf>
		<pdp_per_row>1</pdp_per_row>
		<database> <row><v>1.0</v></row> </database>
	</rra>
</rrd>
"#;

fn read(text: &str) -> Result<Rrd, String> {
    Rrd::read(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_dump_is_read_with_its_state_and_archives() {
    let rrd = read(DUMP).unwrap();
    assert_eq!((rrd.step.us(), rrd.last_update_us), (10_000_000, 1_430_701_301_000_000));
    let source = &rrd.sources[0];
    assert_eq!((source.name.as_str(), source.kind), ("sold", Some(SourceKind::Gauge)));
    assert_eq!((source.heartbeat_us, source.min, source.max), (20_000_000, None, Some(1000.0)));
    assert_eq!((source.last.as_str(), source.open, source.unknown_s), ("30", 30.0, 0));
    assert_eq!(rrd.archives.len(), 2);
    assert_eq!(rrd.archives[1].open, [(30.0, 1)]);
    assert_eq!(rrd.left_out, ["HWPREDICT"]);
}

#[test]
fn each_instant_is_taken_once_from_the_finest_archive() {
    let fields = read(DUMP).unwrap().extract();
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0].field, "sold");
    let shown: Vec<_> = fields[0]
        .stretches
        .iter()
        .map(|s| {
            (s.start_us / SECOND_US - 1_430_701_200, s.end_us / SECOND_US - 1_430_701_200, s.value)
        })
        .collect();
    // The coarse row of 60 to 90 is cut at 80, where the fine archive begins.
    assert_eq!(shown, [(60, 80, 36.0), (80, 90, 22.0), (90, 100, 30.0)]);
}

#[test]
fn other_consolidations_have_fields_of_their_own() {
    let dump = DUMP.replacen("AVERAGE", "MIN", 1).replacen("<cf>AVERAGE", "<cf>MAX", 1);
    let fields = read(&dump).unwrap().extract();
    let names: Vec<_> = fields.iter().map(|field| field.field.as_str()).collect();
    assert_eq!(names, ["sold", "sold_max"], "rows of one slot are the same for all");
}

#[test]
fn what_is_no_dump_says_why() {
    for (change, to, what) in [
        ("</rrd>", "", "it ends too early"),
        ("<version>0003", "<version>0009", "its version 0009 is unknown"),
        ("<step>10", "<step>ten", "'ten' is not a number"),
        ("<step>10</step>", "", "it has no step"),
        ("<lastupdate>1430701301</lastupdate>", "", "it has no last update"),
        ("<lastupdate>1430701301", "<lastupdate>-9223372036854", "its last update is before 1970"),
        ("<name> sold </name>", "", "a data source has no name"),
        ("GAUGE", "THERMOMETER", "its data source type THERMOMETER is unknown"),
        ("<v>NaN</v>", "", "a row does not have one value per data source"),
        ("<pdp_per_row>3</pdp_per_row>", "", "an archive has no pdp_per_row"),
        (
            "<pdp_per_row>3",
            "<pdp_per_row>9223372036854",
            "an archive spans more time than there is",
        ),
        ("</ds>", "</sd>", "ill-formed document: expected `</ds>`, but `</sd>` was found"),
    ] {
        let text = DUMP.replacen(change, to, 1);
        assert_eq!(
            read(&text).unwrap_err(),
            format!("it is not the output of 'rrdtool dump': {what}")
        );
    }
    assert!(read(&"<a>".repeat(100)).unwrap_err().ends_with("its elements are nested too deeply"));
    for (part, what) in [
        ("<ds></ds>", "it has more than 4096 data sources"),
        (
            "<rra><cf>FAILURES</cf><pdp_per_row>1</pdp_per_row></rra>",
            "it has more than 1024 archives",
        ),
        ("<rra><cdp_prep><ds></ds></cdp_prep>", "its elements are nested too deeply"),
    ] {
        assert!(
            read(&format!("<rrd>{}", part.repeat(5_000))).unwrap_err().ends_with(what),
            "{part}"
        );
    }
    let state = format!("<rrd><rra><cdp_prep>{}", "<ds></ds>".repeat(5_000));
    assert!(read(&state).unwrap_err().ends_with("it has more than 4096 data sources"));
    let long = DUMP.replacen("sold", &"x".repeat(1_025), 1);
    assert!(read(&long).unwrap_err().ends_with("a text is longer than 1024 bytes"));
    assert!(read("").unwrap_err().ends_with("it ends too early"));
}
