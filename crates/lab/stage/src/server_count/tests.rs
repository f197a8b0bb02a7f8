use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::*;

fn reader(served_by: ServedBy, dir: &Path) -> Result<CountReader, StageError> {
    let dir = dir.display().to_string();
    CountReader::with(&served_by, |text| text.replace("$DIR", &dir).replace("$COUNTERS", &dir))
}

fn number_file() -> ServedBy {
    ServedBy::CounterFile { path: "$DIR/number".to_owned(), per_request: 1 }
}

/// Sends the next of `answers` on each connection; closes it for `None`.
fn server(answers: Vec<Option<&'static str>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            if let Some(body) = answer {
                let length = body.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
                    .unwrap();
            }
        }
    });
    format!("http://127.0.0.1:{port}/count")
}

#[test]
fn our_own_readings_of_stub_status_are_subtracted() {
    let body = |count: u64| -> &'static str {
        let text = format!(
            "Active connections: 2 \nserver accepts handled requests\n 7 7 {count} \nReading: 0 Writing: 1 Waiting: 1 \n"
        );
        text.leak()
    };
    let target = server(vec![Some(body(11)), Some(body(12)), Some(body(113)), Some("welcome")]);
    let mut reader = reader(ServedBy::StubStatus(target.clone()), Path::new("/")).unwrap();
    assert_eq!(reader.read().unwrap().served, 10);
    assert_eq!(reader.read().unwrap().served, 10);
    assert_eq!(reader.read().unwrap().served, 110);
    assert_eq!(
        reader.read().unwrap_err().to_string(),
        format!(
            "the server's own count cannot be read from {target}: the response is not a page of \
             nginx's stub_status"
        )
    );
}

#[test]
fn a_page_is_searched_for_the_count() {
    let by = |target: &str, pattern: &str, self_counting: bool| ServedBy::Http {
        target: target.to_owned(),
        pattern: pattern.to_owned(),
        self_counting,
        discarded: None,
        per_request: 1,
    };
    let dir = Path::new("/");
    let target = server(vec![Some("served 5 of 9"), Some("served 7 of 9"), Some("served many")]);
    let mut plain = reader(by(&target, r"served (\w+)", false), dir).unwrap();
    assert_eq!((plain.read().unwrap().served, plain.read().unwrap().served), (5, 7));
    let error = plain.read().unwrap_err().to_string();
    assert!(error.ends_with("'many' is not a whole number"), "{error}");
    let target = server(vec![Some("5"), Some("6"), Some("17")]);
    let mut counting = reader(by(&target, "([0-9]+)", true), dir).unwrap();
    let readings: Vec<u64> = (0..3).map(|_| counting.read().unwrap().served).collect();
    assert_eq!(
        readings,
        [5, 5, 15],
        "ten requests and two readings between the first and the last"
    );
    for (pattern, why) in [
        ("served", "'served' needs a group around the count, such as total=([0-9]+)"),
        ("(", "'(' is not a valid regular expression"),
    ] {
        let error = reader(by(&target, pattern, false), dir).unwrap_err().to_string();
        assert!(error.ends_with(why), "{error}");
    }
}

#[test]
fn a_reading_that_broke_off_makes_later_ones_uncertain() {
    let target = server(vec![Some("5"), None, Some("9")]);
    let by = ServedBy::Http {
        target,
        pattern: "([0-9]+)".to_owned(),
        self_counting: true,
        discarded: None,
        per_request: 1,
    };
    let mut reader = reader(by, Path::new("/")).unwrap();
    assert_eq!(reader.read().unwrap().served, 5);
    assert!(reader.read().is_err());
    let error = reader.read().unwrap_err().to_string();
    assert!(error.ends_with("the server may have counted it"), "{error}");
}

#[test]
fn only_complete_lines_count_and_each_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let by = |pattern: Option<&str>| ServedBy::LogLines {
        path: "$DIR/access.log".to_owned(),
        pattern: pattern.map(str::to_owned),
    };
    let mut all = reader(by(None), dir.path()).unwrap();
    let mut gets = reader(by(Some("^GET .* 200$")), dir.path()).unwrap();
    assert_eq!(all.read().unwrap().served, 0, "the server makes it with its first request");
    for (text, lines, matching) in [
        ("GET / 200\nGET /x 404\nGET /y 2", 2, 1),
        ("00", 2, 1),
        ("\n", 3, 2),
        ("\n\nPOST / 200\n", 6, 2),
    ] {
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert_eq!(
            (all.read().unwrap().served, gets.read().unwrap().served),
            (lines, matching),
            "{text}"
        );
    }
    File::options().append(true).open(&path).unwrap().write_all(&[0; 10]).unwrap();
    let error = gets.read().unwrap_err().to_string();
    assert!(error.contains("its beginning was discarded"), "{error}");
    fs::write(&path, "GET / 200\n").unwrap();
    let error = all.read().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "access.log: it was rotated or truncated during the \
        measurement"
        ),
        "{error}"
    );
}

#[test]
fn a_count_that_still_moves_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bytes");
    let mut size = reader(ServedBy::FileSize("$DIR/bytes".to_owned()), dir.path()).unwrap();
    let writer = thread::spawn(move || {
        for count in 1..=20 {
            fs::write(&path, vec![b'x'; count]).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    });
    let minute = Nanos::from_secs(60);
    assert_eq!(size.read_settled(Nanos::from_secs(2), minute).unwrap().served, 20);
    writer.join().unwrap();
    size.read_settled(minute, Nanos::ZERO).unwrap();
}

#[test]
fn a_request_that_was_counted_twice_was_missed_when_the_second_line_came_late() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("number");
    fs::write(&path, "12").unwrap();
    let mut number = reader(number_file(), dir.path()).unwrap();
    let minute = Nanos::from_secs(60);
    // The count is complete before the late line comes; the line comes while the count settles.
    let base = Count { served: 2, discarded: 0 };
    let wanted = thread::scope(|scope| {
        scope.spawn(|| fs::write(&path, "13").unwrap());
        number.read_settled_from(base, 10, Nanos::from_secs(3), minute).unwrap()
    });
    assert_eq!(wanted.served, 11);
}

#[test]
fn a_count_that_is_quiet_too_early_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("number");
    fs::write(&path, "7").unwrap();
    let mut number = reader(number_file(), dir.path()).unwrap();
    let (counted, go_on) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            // It has been quiet for much longer than necessary when the rest is counted.
            let () = go_on.recv().unwrap();
            fs::write(&path, "10").unwrap();
        });
        let mut read = |patience| {
            let base = Count::default();
            number.read_settled_from(base, 10, Nanos::ZERO, patience).unwrap().served
        };
        assert_eq!(read(Nanos::from_millis(50)), 7, "patience is over");
        counted.send(()).unwrap();
        assert_eq!(read(Nanos::from_secs(60)), 10);
    });
}

#[test]
fn a_log_in_a_folder_that_does_not_exist_is_a_mistake() {
    let by = ServedBy::LogLines { path: "/nowhere/access.log".to_owned(), pattern: None };
    assert_eq!(
        reader(by, Path::new("/")).unwrap().read().unwrap_err().to_string(),
        "the server's own count cannot be read from /nowhere/access.log: neither the file nor its \
         folder exists"
    );
}

#[test]
fn sizes_and_numbers_of_files_are_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut size = reader(ServedBy::FileSize("$DIR/bytes".to_owned()), dir.path()).unwrap();
    assert_eq!(size.read().unwrap().served, 0);
    fs::write(dir.path().join("bytes"), "xxx").unwrap();
    assert_eq!(size.read().unwrap().served, 3);
    let mut number = reader(number_file(), dir.path()).unwrap();
    assert_eq!(number.read().unwrap().served, 0);
    fs::write(dir.path().join("number"), " 42\n").unwrap();
    assert_eq!(number.read().unwrap().served, 42);
    for (bytes, count) in
        [(&258_u64.to_le_bytes()[..], 258), (&[0; 8], 0), (b"12345678", 12_345_678)]
    {
        fs::write(dir.path().join("number"), bytes).unwrap();
        assert_eq!(number.read().unwrap().served, count);
    }
    fs::write(dir.path().join("number"), "-1").unwrap();
    let error = number.read().unwrap_err().to_string();
    assert!(error.ends_with("it contains '-1' instead of a whole number"), "{error}");
}

#[test]
fn an_external_server_has_no_counter_folder() {
    assert_eq!(
        CountReader::external(&ServedBy::Wsgi).unwrap_err().to_string(),
        "the server's own count cannot be read from wsgi: counter files exist only for servers \
         that tachograph starts; use a file, a log or a URL"
    );
    let path = "/nowhere/$DIR".to_owned();
    let error = CountReader::external(&ServedBy::FileSize(path)).unwrap().read().unwrap_err();
    assert!(error.to_string().contains("/nowhere/$DIR"), "{error}");
}

fn counter_file(slots: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = WSGI_MAGIC.to_vec();
    bytes.extend((slots.len() as u64).to_le_bytes());
    for (entered, served) in slots {
        bytes.extend(entered.to_le_bytes());
        bytes.extend(served.to_le_bytes());
    }
    bytes
}

#[test]
fn every_slot_of_every_worker_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = reader(ServedBy::Wsgi, dir.path()).unwrap();
    assert_eq!(reader.read().unwrap().served, 0);
    fs::write(dir.path().join("11.count"), counter_file(&[(3, 2), (1 << 40, 1 << 40), (0, 0)]))
        .unwrap();
    fs::write(dir.path().join("12.count"), counter_file(&[(5, 5)])).unwrap();
    fs::write(dir.path().join("13.count"), "").unwrap();
    fs::write(dir.path().join("notes.txt"), "not a counter").unwrap();
    assert_eq!(reader.read().unwrap().served, (1 << 40) + 7);
    let counts = wsgi(dir.path()).unwrap();
    assert_eq!(counts, WsgiCounts { entered: (1 << 40) + 8, served: (1 << 40) + 7 });
}

#[test]
fn damaged_counter_files_are_no_zeros() {
    let whole = counter_file(&[(1, 1)]);
    let mut huge = whole.clone();
    huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    for (bytes, why) in [
        (&b"TGCOUNT2________"[..], "it does not start like a counter file"),
        (&whole[..12], "its header is truncated"),
        (&whole[..31], "it is shorter than its header states"),
        (&huge[..], "it is shorter than its header states"),
    ] {
        assert_eq!(wsgi_file(bytes), Err(why));
    }
}

#[test]
fn what_the_kernel_discarded_is_read_from_the_same_page() {
    let target = server(vec![
        Some("lines_total 10\ndropped_total 2\n"),
        Some("lines_total 140\ndropped_total 3\n"),
        Some("lines_total 180\ndropped_total 3\n"),
    ]);
    let by = ServedBy::Http {
        target,
        pattern: r"lines_total 1(\d+)".to_owned(),
        self_counting: false,
        discarded: Some(r"dropped_total (\d+)".to_owned()),
        per_request: 20,
    };
    let mut reader = reader(by, Path::new("/")).unwrap();
    assert_eq!((reader.per_request(), reader.counts_discarded()), (20, true));
    let base = reader.read().unwrap();
    assert_eq!(base, Count { served: 0, discarded: 2 });
    // Five messages: one was discarded, four of 20 lines are waited for.
    let count = reader.read_settled_from(base, 5, Nanos::ZERO, Nanos::from_secs(60)).unwrap();
    assert_eq!(count, Count { served: 80, discarded: 1 });
}
