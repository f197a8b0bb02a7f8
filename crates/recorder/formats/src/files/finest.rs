//! Merges overlapping archives into one history.

/// Rows of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Archive {
    /// The length of a row, in microseconds; at least 1.
    pub row_us: i64,
    /// The earliest instant that it can hold; after that, missing rows are unknown.
    pub begins_us: i64,
    /// Start and value of each known row, in order of time.
    pub rows: Vec<(i64, f64)>,
}

/// A stretch of time with one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Its start, microseconds since the epoch.
    pub start_us: i64,
    /// Its end.
    pub end_us: i64,
    /// The value.
    pub value: f64,
    /// Length of the row that it comes from.
    pub row_us: i64,
}

/// The finest known row for each instant, in order of time.
///
/// A coarse row is cut where a finer archive begins. Within the finer archive's range it is used
/// only if none of its slots is known there: over the unknown part of half a row, it would make
/// time known that never was.
///
/// ```text
///  10 s                    │ 5 │ · │ 7 │ · │ · │ · │
///  30 s        │     4     │     6     │     ·     │ 2 …
///              └── taken ──┘ 5       7             └ taken: nothing finer is known there
/// ```
///
/// The archives are ordered finest first.
pub fn finest(archives: impl IntoIterator<Item = Archive>) -> Vec<Stretch> {
    let mut taken: Vec<Stretch> = Vec::new();
    let mut begins_us = i64::MAX;
    for archive in archives.into_iter().filter(|archive| archive.row_us > 0) {
        let mut added = Vec::new();
        for (start_us, value) in &archive.rows {
            let end_us = start_us.saturating_add(archive.row_us);
            let stretch = |start_us, end_us| Stretch {
                start_us,
                end_us,
                value: *value,
                row_us: archive.row_us,
            };
            let cut_us = begins_us.clamp(*start_us, end_us);
            if known_within(&taken, cut_us, end_us) {
                if *start_us < cut_us {
                    added.push(stretch(*start_us, cut_us));
                }
            } else if end_us > *start_us {
                added.push(stretch(*start_us, end_us));
            }
        }
        if !archive.rows.is_empty() {
            begins_us = begins_us.min(archive.begins_us);
        }
        if taken.is_empty() {
            taken = added;
        } else {
            taken.extend(added);
            taken.sort_unstable_by_key(|stretch| stretch.start_us);
        }
    }
    taken
}

/// Whether anything is known between two instants. The stretches are ordered and do not overlap.
fn known_within(taken: &[Stretch], from_us: i64, until_us: i64) -> bool {
    let first = taken.partition_point(|stretch| stretch.end_us <= from_us);
    from_us < until_us && taken.get(first).is_some_and(|stretch| stretch.start_us < until_us)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(row_us: i64, begins_us: i64, rows: &[(i64, f64)]) -> Archive {
        Archive { row_us, begins_us, rows: rows.to_vec() }
    }

    fn shown(archives: &[Archive]) -> Vec<(i64, i64, f64)> {
        finest(archives.to_vec()).iter().map(|s| (s.start_us, s.end_us, s.value)).collect()
    }

    #[test]
    fn the_finest_that_is_known_is_taken() {
        let fine = archive(10, 30, &[(30, 5.0), (50, 7.0)]);
        let coarse = archive(30, 0, &[(0, 4.0), (30, 6.0), (90, 2.0)]);
        let expected = [(0, 30, 4.0), (30, 40, 5.0), (50, 60, 7.0), (90, 120, 2.0)];
        assert_eq!(shown(&[fine, coarse]), expected);
    }

    #[test]
    fn a_coarse_row_is_cut_where_the_finer_archive_begins() {
        let fine = archive(10, 20, &[(20, 5.0)]);
        let coarse = archive(30, 0, &[(0, 4.0)]);
        assert_eq!(shown(&[fine, coarse]), [(0, 20, 4.0), (20, 30, 5.0)]);
        let unknown = archive(10, 20, &[(30, 5.0)]);
        let coarse = archive(30, 0, &[(0, 4.0)]);
        assert_eq!(shown(&[unknown, coarse]), [(0, 30, 4.0), (30, 40, 5.0)]);
    }

    #[test]
    fn an_empty_archive_hides_nothing() {
        let coarse = archive(30, 0, &[(0, 4.0)]);
        assert_eq!(shown(&[archive(10, 0, &[]), coarse]), [(0, 30, 4.0)]);
    }

    proptest! {
        #[test]
        fn no_instant_is_taken_twice_and_none_that_is_known_is_left_out(
            known in prop::collection::vec(any::<bool>(), 24),
            held in prop::collection::vec(1_usize..24, 3),
        ) {
            // Three archives of the same data, each with its newest rows.
            let archives: Vec<Archive> = [1_i64, 2, 6].iter().zip(&held).map(|(row_us, held)| {
                let rows = 24 / row_us;
                let first = rows - (*held as i64).min(rows);
                let of = |i: i64| (i * row_us..(i + 1) * row_us).any(|slot| known[slot as usize]);
                let rows = (first..rows).filter(|i| of(*i)).map(|i| (i * row_us, *row_us as f64));
                archive(*row_us, first * row_us, &rows.collect::<Vec<_>>())
            }).collect();
            let taken = finest(archives.clone());
            for pair in taken.windows(2) {
                prop_assert!(pair[0].end_us <= pair[1].start_us);
            }
            for slot in 0..24 {
                let by_archive = archives.iter().find(|a| a.begins_us <= slot && !a.rows.is_empty());
                let Some(finest_us) = by_archive.map(|a| a.row_us) else { continue };
                let row = taken.iter().find(|s| s.start_us <= slot && slot < s.end_us);
                if known[slot as usize] {
                    prop_assert_eq!(row.map(|s| s.row_us), Some(finest_us), "slot {}", slot);
                }
            }
        }
    }
}
