use proptest::prelude::*;

use super::*;

/// A file with these archives: seconds per point, and the ring as stored.
fn file(aggregation: u32, archives: &[(u32, &[(u32, f64)])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let longest = archives.iter().map(|(step, ring)| step * ring.len() as u32).max().unwrap();
    for number in [aggregation, longest, 0.5_f32.to_bits(), archives.len() as u32] {
        bytes.extend(number.to_be_bytes());
    }
    let mut offset = (HEADER + archives.len() * ARCHIVE) as u32;
    for (step, ring) in archives {
        for number in [offset, *step, ring.len() as u32] {
            bytes.extend(number.to_be_bytes());
        }
        offset += (ring.len() * POINT) as u32;
    }
    for (time, value) in archives.iter().flat_map(|(_, ring)| *ring) {
        bytes.extend(time.to_be_bytes());
        bytes.extend(value.to_bits().to_be_bytes());
    }
    bytes
}

fn shown(whisper: &Whisper) -> Vec<(i64, i64, f64)> {
    let stretches = whisper.extract();
    stretches.iter().map(|s| (s.start_us / SECOND_US, s.end_us / SECOND_US, s.value)).collect()
}

#[test]
fn a_ring_is_read_from_its_oldest_point() {
    let ring = [(50, 5.0), (20, 2.0), (0, 0.0), (40, 4.0)];
    let whisper = Whisper::parse(&file(1, &[(10, &ring)])).unwrap();
    assert_eq!(shown(&whisper), [(20, 30, 2.0), (40, 50, 4.0), (50, 60, 5.0)]);
    assert_eq!((whisper.aggregation, whisper.xff, whisper.expired), (Aggregation::Average, 0.5, 0));
}

#[test]
fn points_that_were_left_behind_are_counted_and_not_taken() {
    // 110 has passed the positions of 80 to 100, whose points are one round older.
    let ring = [(80, 8.0), (50, 5.0), (60, 6.0), (110, 1.0)];
    let whisper = Whisper::parse(&file(1, &[(10, &ring)])).unwrap();
    assert_eq!(shown(&whisper), [(80, 90, 8.0), (110, 120, 1.0)]);
    assert_eq!(whisper.expired, 2);
    let misplaced = [(80, 8.0), (85, 5.0), (120, 6.0), (0, 0.0)];
    let whisper = Whisper::parse(&file(1, &[(10, &misplaced)])).unwrap();
    assert_eq!((shown(&whisper), whisper.expired), (vec![(80, 90, 8.0)], 2));
}

#[test]
fn coarse_archives_give_what_the_fine_ones_no_longer_have() {
    let fine = [(960, 6.0), (970, 7.0)];
    let coarse = [(900, 1.0), (930, 3.0), (960, 6.5)];
    let whisper = Whisper::parse(&file(1, &[(10, &fine), (30, &coarse)])).unwrap();
    assert_eq!(
        shown(&whisper),
        [(900, 930, 1.0), (930, 960, 3.0), (960, 970, 6.0), (970, 980, 7.0)]
    );
}

#[test]
fn sums_are_counts_and_are_cut_in_proportion() {
    let fine = [(940, 6.0), (950, 7.0)];
    let coarse = [(900, 30.0), (930, 9.0)];
    let whisper = Whisper::parse(&file(2, &[(10, &fine), (30, &coarse)])).unwrap();
    assert!(whisper.holds_counts());
    assert_eq!(
        shown(&whisper),
        [(900, 930, 30.0), (930, 940, 3.0), (940, 950, 6.0), (950, 960, 7.0)]
    );
    let half = Whisper::parse(&file(2, &[(10, &[(40, 0.5)])])).unwrap();
    assert!(!half.holds_counts());
}

#[test]
fn values_that_are_no_numbers_are_counted() {
    let ring = [(10, f64::NAN), (20, f64::INFINITY), (30, 3.0)];
    let whisper = Whisper::parse(&file(1, &[(10, &ring)])).unwrap();
    assert_eq!((shown(&whisper), whisper.not_numbers), (vec![(30, 40, 3.0)], 2));
}

#[test]
fn what_is_no_whisper_file_says_why() {
    let sound = file(1, &[(10, &[(10, 1.0)]), (60, &[(0, 0.0)])]);
    let changed = |at: usize, number: u32| {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    for (bytes, what) in [
        (vec![], "it has no header"),
        (changed(0, 9), "its aggregation is unknown"),
        (changed(8, 2.0_f32.to_bits()), "its xFilesFactor is not from 0 to 1"),
        (changed(12, 0), "it has no archive, or more than 64"),
        (changed(12, u32::MAX), "it has no archive, or more than 64"),
        (sound[..30].to_vec(), "its header is incomplete"),
        (changed(16, 41), "its archives are not contiguous"),
        (changed(20, 0), "its archives are not contiguous"),
        (changed(24, 0), "its archives are not contiguous"),
        (changed(24, u32::MAX), "its archives are larger than 1 GiB"),
        (changed(36, 2), "it ends before its archives do"),
        (sound[..sound.len() - 1].to_vec(), "it ends before its archives do"),
        ([sound.clone(), vec![0]].concat(), "data follows its archives"),
    ] {
        assert_eq!(
            Whisper::parse(&bytes).unwrap_err().to_string(),
            format!("it is not a whisper file: {what}")
        );
    }
}

#[test]
fn more_known_points_than_the_limit_are_refused_before_they_fill_the_memory() {
    struct Points(u32);
    impl Read for Points {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for point in buffer.chunks_exact_mut(POINT) {
                point[..4].copy_from_slice(&self.0.to_be_bytes());
                self.0 += 1;
            }
            Ok(buffer.len())
        }
    }
    let mut head = file(1, &[(1, &[(1, 1.0)])]);
    head.truncate(HEADER + ARCHIVE);
    head[24..28].copy_from_slice(&80_000_000_u32.to_be_bytes());
    let error = Whisper::read(head.as_slice().chain(Points(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is not a whisper file: it has more than 4000000 known points"
    );
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        start in 1_u32..100_000,
        values in prop::collection::vec(prop::option::of(-1e9_f64..1e9), 1..50),
        turn in 0_usize..50,
    ) {
        let known: Vec<_> = (start..).zip(&values).filter_map(|(i, v)| Some((i * 10, (*v)?))).collect();
        let mut ring: Vec<_> =
            (start..).zip(&values).map(|(i, v)| v.map_or((0, 0.0), |v| (i * 10, v))).collect();
        let turn = turn % ring.len();
        ring.rotate_left(turn);
        let whisper = Whisper::parse(&file(1, &[(10, &ring)])).unwrap();
        // Without a first point, the positions of other points are unknown.
        if ring[0].0 != 0 {
            prop_assert_eq!(&whisper.archives[0].points, &known);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Whisper::parse(&bytes);
        if bytes.len() > 28 {
            let head = file(1, &[(10, &[(10, 1.0)])]);
            bytes[..28].copy_from_slice(&head[..28]);
            let room = (bytes.len() - 28) / POINT;
            bytes[24..28].copy_from_slice(&(room as u32).to_be_bytes());
            bytes.truncate(28 + room * POINT);
            if let Ok(whisper) = Whisper::parse(&bytes) {
                let _ = whisper.extract();
            }
        }
    }
}
