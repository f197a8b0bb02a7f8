use std::fs;
use std::path::Path;

use super::*;

type Records = Vec<(u64, Vec<u8>)>;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn bytes_of(position: u64) -> Vec<u8> {
    vec![position as u8; (position * 7 % 50) as usize]
}

/// Opens a journal of short files, and returns its records.
fn open(folder: &Path) -> Result<(Journal, Records), JournalError> {
    let mut found = Records::new();
    let disk = Folder::locked(folder).unwrap().ok_or(JournalError::Locked(folder.to_owned()))?;
    let journal = Journal::open(disk, 200, |position, bytes| {
        found.push((position, bytes.to_vec()));
    })?;
    Ok((journal, found))
}

/// The first positions of the files in a folder, in order.
fn files(folder: &Path) -> Vec<u64> {
    let mut firsts = firsts(&Folder::new(folder).list().unwrap());
    firsts.sort_unstable();
    firsts
}

fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(name_of(first))
}

fn fill(folder: &Path, count: u64) {
    let (mut journal, _) = open(folder).unwrap();
    let from = journal.last();
    for position in from + 1..=from + count {
        assert_eq!(journal.append(&bytes_of(position)).unwrap(), position);
        assert_eq!(journal.commit().unwrap(), position);
    }
}

fn records(positions: std::ops::RangeInclusive<u64>) -> Records {
    positions.map(|position| (position, bytes_of(position))).collect()
}

fn last_file(folder: &Path) -> PathBuf {
    path_of(folder, *files(folder).last().unwrap())
}

#[test]
fn records_come_back_in_order() {
    let folder = folder();
    fill(folder.path(), 30);
    assert!(files(folder.path()).len() > 3);
    let (journal, found) = open(folder.path()).unwrap();
    assert_eq!((journal.last(), found), (30, records(1..=30)));
    drop(journal);
    fill(folder.path(), 5);
    assert_eq!(open(folder.path()).unwrap().1, records(1..=35));
}

#[test]
fn a_journal_that_is_cut_at_any_byte_holds_what_is_whole_and_goes_on() {
    let folder = folder();
    fill(folder.path(), 12);
    let whole: Vec<_> = files(folder.path())
        .into_iter()
        .map(|first| (first, fs::read(path_of(folder.path(), first)).unwrap()))
        .collect();
    let (first, last_file) = whole.last().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for cut in 0..=last_file.len() {
        for garbage in [&[][..], &[0; 40], &[0xff; 3]] {
            if (cut < HEADER_BYTES as usize || cut % 5 != 0) && !garbage.is_empty() {
                continue;
            }
            for first in files(folder.path()) {
                fs::remove_file(path_of(folder.path(), first)).unwrap();
            }
            for (first, bytes) in &whole {
                fs::write(path_of(folder.path(), *first), bytes).unwrap();
            }
            let path = path_of(folder.path(), *first);
            fs::write(path, [&last_file[..cut], garbage].concat()).unwrap();
            let (mut journal, found) = open(folder.path()).unwrap();
            let last = journal.last();
            assert_eq!(found, records(1..=last), "{cut} bytes");
            assert!((first - 1..=12).contains(&last));
            seen.insert(last);
            assert_eq!(journal.append(&bytes_of(last + 1)).unwrap(), last + 1);
            journal.commit().unwrap();
            drop(journal);
            assert_eq!(open(folder.path()).unwrap().1, records(1..=last + 1), "{cut} bytes");
        }
    }
    assert_eq!(seen.len() as u64, 12 - first + 2, "every number of whole records was met");
}

#[test]
fn a_flipped_bit_is_damage_in_the_middle_and_an_end_in_the_last_file() {
    let folder = folder();
    fill(folder.path(), 30);
    let firsts = files(folder.path());
    let flip = |first: u64| {
        let path = path_of(folder.path(), first);
        let mut bytes = fs::read(&path).unwrap();
        bytes[HEADER_BYTES as usize + 9] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    let last = *firsts.last().unwrap();
    flip(last);
    assert_eq!(open(folder.path()).unwrap().1, records(1..=last - 1));
    flip(firsts[1]);
    let error = open(folder.path()).unwrap_err().to_string();
    let wanted = format!(
        "the journal {} is damaged after record {}: restore it from a backup, or move it away and lose the later records",
        path_of(folder.path(), firsts[1]).display(),
        firsts[1] - 1
    );
    assert_eq!(error, wanted);
}

#[test]
fn what_an_earlier_process_could_not_sync_takes_nothing_along_that_came_later() {
    let folder = folder();
    fill(folder.path(), 28);
    let earlier = last_file(folder.path());
    fill(folder.path(), 3);
    // A power cut takes a part of the earlier process's last commit; more than that is damage.
    let whole = fs::read(&earlier).unwrap();
    let commit = whole.len() - FRAME_BYTES as usize - bytes_of(28).len();
    for length in commit..whole.len() {
        fs::write(&earlier, &whole[..length]).unwrap();
        let (journal, found) = open(folder.path()).unwrap();
        assert_eq!((journal.last(), found), (31, [records(1..=27), records(29..=31)].concat()));
        assert_eq!(journal.missing(), [28..=28]);
        for after in [0, 26, 27, 28] {
            let mut follower = Follower::new(Folder::new(folder.path()), after);
            let mut followed = Vec::new();
            while let Some((position, _)) = follower.next(31).unwrap() {
                followed.push(position);
            }
            let expected = (after + 1..=31).filter(|position| *position != 28);
            assert!(expected.eq(followed.iter().copied()), "after {after}: {followed:?}");
        }
    }
    for length in [commit - 1, commit - 20] {
        fs::write(&earlier, &whole[..length]).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{length}: {error}");
    }
    let mut flipped = whole.clone();
    flipped[commit - 1] ^= 1;
    fs::write(&earlier, &flipped).unwrap();
    assert!(matches!(open(folder.path()), Err(JournalError::Damaged { last: 26, .. })));
}

#[test]
fn files_that_a_store_has_go_and_positions_go_on() {
    let folder = folder();
    fill(folder.path(), 30);
    let firsts = files(folder.path());
    let (mut journal, _) = open(folder.path()).unwrap();
    journal.release(firsts[2] - 2).unwrap();
    assert_eq!(files(folder.path()), firsts[1..]);
    assert_eq!(journal.first(), firsts[1]);
    journal.release(1_000).unwrap();
    assert_eq!(files(folder.path()), firsts[firsts.len() - 1..]);
    drop(journal);
    // The folder was lost, but not the store: no position is used twice.
    for first in files(folder.path()) {
        fs::remove_file(path_of(folder.path(), first)).unwrap();
    }
    let (mut journal, found) = open(folder.path()).unwrap();
    journal.skip_to(30).unwrap();
    assert_eq!((found, journal.append(b"").unwrap()), (Records::new(), 31));
    journal.commit().unwrap();
    // Nor if the store is ahead of the remaining records.
    journal.skip_to(40).unwrap();
    assert_eq!(journal.append(&bytes_of(41)).unwrap(), 41);
    journal.commit().unwrap();
    drop(journal);
    assert_eq!(open(folder.path()).unwrap().1, records(41..=41));
}

#[test]
fn what_is_not_ours_is_refused_with_a_sentence() {
    let folder = folder();
    fill(folder.path(), 3);
    let (journal, _) = open(folder.path()).unwrap();
    let locked = open(folder.path()).unwrap_err().to_string();
    let place = folder.path().display();
    assert_eq!(locked, format!("another process writes to the journal in {place}: stop it first"));
    drop(journal);
    let path = last_file(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[12] = 9;
    fs::write(&path, bytes).unwrap();
    let foreign = open(folder.path()).unwrap_err().to_string();
    assert!(
        foreign.ends_with(
            "is not a journal of this version: it was changed by another \
        program, or by a newer tachograph"
        ),
        "{foreign}"
    );
    fs::remove_file(&path).unwrap();
    let (mut journal, _) = open(folder.path()).unwrap();
    let error = journal.append(&vec![0; RECORD_MAX + 1]).unwrap_err().to_string();
    assert_eq!(error, "a record of 16777217 bytes is longer than 16777216: send it in parts");
    assert_eq!(journal.append(b"x").unwrap(), 1, "and took no position");
}

#[test]
fn the_checksum_is_that_of_rfc_3720() {
    assert_eq!(checksum(&[b"123456789"]), 0xe306_9283);
    assert_eq!(checksum(&[&[0; 32]]), 0x8a91_36aa);
    assert_eq!(checksum(&[&[0xff; 16], &[0xff; 16]]), 0x62a8_ab43);
}

/// Length of all files of a journal.
fn on_disk(folder: &Path) -> u64 {
    let firsts = files(folder);
    firsts.iter().map(|first| path_of(folder, *first).metadata().unwrap().len()).sum()
}

#[test]
fn the_size_is_that_of_the_files() {
    let folder = folder();
    fill(folder.path(), 30);
    let (mut journal, _) = open(folder.path()).unwrap();
    assert_eq!(journal.size(), on_disk(folder.path()));
    journal.start_file().unwrap();
    journal.start_file().unwrap();
    assert_eq!(journal.size(), on_disk(folder.path()));
    journal.release(30).unwrap();
    assert_eq!((journal.size(), on_disk(folder.path())), (24, 24), "an empty file remains");
    journal.append(&bytes_of(31)).unwrap();
    journal.commit().unwrap();
    assert_eq!(journal.size(), on_disk(folder.path()));
}
