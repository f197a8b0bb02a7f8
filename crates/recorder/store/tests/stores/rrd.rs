//! Series in RRD mode: state and rows survive, and no archive exceeds its rows.

use series::rrd::{Archive, Consolidation, Definition, Reading, Row, Rrd, SourceKind};
use series::{Kind, SECOND_US, Spec, Step};
use store::{Changes, Identity, NewSeries, Retention, RrdChange, SeriesLimit, Writer};

use crate::place::Place;

const START_US: i64 = 1_700_000_000 * SECOND_US;

fn definition() -> Definition {
    let archive = |consolidation, steps, rows| Archive { consolidation, xff: 0.5, steps, rows };
    Definition {
        kind: SourceKind::Gauge,
        step: Step::from_secs(10).unwrap(),
        heartbeat_us: 20 * SECOND_US,
        min: None,
        max: None,
        archives: vec![
            archive(Consolidation::Average, 1, 7),
            archive(Consolidation::Max, 3, 4),
            archive(Consolidation::Last, 30, 5),
        ],
    }
}

fn lines(rrd: &Rrd) -> Vec<String> {
    let end_us = rrd.last_us();
    let fetch = |consolidation, resolution_us| {
        rrd.fetch(consolidation, end_us - 300 * SECOND_US, end_us, resolution_us).unwrap()
    };
    let all = [(Consolidation::Average, 1), (Consolidation::Max, 30), (Consolidation::Last, 300)];
    all.iter()
        .flat_map(|(kind, s)| fetch(*kind, s * SECOND_US).lines().collect::<Vec<_>>())
        .collect()
}

fn check(mut place: Place) -> Place {
    place.store().retain(&[Retention::from_secs(10, None).unwrap()]).unwrap();
    let spec = Spec::new(Kind::Gauge, definition().step);
    let wanted =
        NewSeries { rrd: Some(definition()), ..NewSeries::new(Identity::new("r", []), spec) };
    let made = place.store().series(&[wanted], &SeriesLimit::DEFAULT).unwrap();
    let id = made[0].as_ref().unwrap().id;
    assert!(place.store().rrd(id).unwrap().is_none(), "nothing was written yet");

    let mut whole = Rrd::new(definition(), START_US).unwrap();
    for batch in 0..20i64 {
        // The state comes from the store, as after a restart.
        let kept = place.store().rrd(id).unwrap();
        let mut state = kept.map_or_else(|| whole.state().clone(), |rrd| rrd.state().clone());
        let mut rows: Vec<Row> = Vec::new();
        for update in 1..=5 {
            let at_us = START_US + (batch * 5 + update) * 7 * SECOND_US;
            // Every ninth reading is unknown.
            let value =
                if update * batch % 9 == 8 { "U".to_owned() } else { format!("{batch}.{update}") };
            let reading = Reading::parse(SourceKind::Gauge, &value).unwrap();
            state.update(&definition(), at_us, reading, |row| rows.push(row)).unwrap();
            whole.update(at_us, reading).unwrap();
        }
        let changes =
            Changes { rrd: vec![RrdChange { series: id, state, rows }], ..Changes::default() };
        place.store().apply(Writer(1), batch as u64 + 1, &changes).unwrap();
        place.reopen();
        let kept = place.store().rrd(id).unwrap().unwrap();
        assert_eq!(lines(&kept), lines(&whole), "batch {batch}");
    }
    assert!(lines(&whole).iter().any(|line| !line.contains("nan")), "some rows are known");
    assert_eq!(place.store().find(&Default::default()).unwrap()[0].rrd, Some(definition()));
    place
}

#[test]
fn a_series_in_rrd_mode_is_what_it_would_be_in_one_piece() {
    check(Place::memory());
    check(Place::postgres("rrd"));
    let place = check(Place::sqlite());
    let Place::Sqlite { folder, .. } = &place else { panic!("it is in SQLite") };
    let db = rusqlite::Connection::open(folder.path().join("record.sqlite")).unwrap();
    let sql = "SELECT count(*) FROM rrd_row GROUP BY archive ORDER BY archive";
    let mut statement = db.prepare(sql).unwrap();
    let counts = statement.query_map([], |row| row.get(0)).unwrap();
    let counts: Vec<i64> = counts.map(Result::unwrap).collect();
    assert_eq!(counts, [7, 4, 3], "no archive has more rows than it may");
}
