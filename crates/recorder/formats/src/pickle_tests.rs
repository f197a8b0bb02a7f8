use std::process::Command;

use super::*;

/// The lines of a frame, then the reasons.
fn read(frame: &[u8]) -> String {
    let (mut text, mut reasons) = (Vec::new(), Vec::new());
    let done = lines(frame, &mut text, &mut |reason| reasons.push(format!("! {}", reason.name())));
    if let Err(reason) = done {
        assert!(text.is_empty() && reasons.is_empty());
        return format!("!! {}", reason.name());
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().map(str::to_owned).chain(reasons).collect::<Vec<_>>().join(", ")
}

#[test]
fn lists_of_points_are_read_in_every_protocol() {
    // [("a.b", (1430701282, 1.5)), ("c;k=v", (1430701282.25, -7)), ("a.b", (-1, "3"))], as Python
    // 3.11 writes it.
    for frame in [
        &b"(lp0\n(Va.b\np1\n(I1430701282\nF1.5\ntp2\ntp3\na(Vc;k=v\np4\n(F1430701282.25\nI-7\ntp5\n\
           tp6\na(g1\n(I-1\nV3\np7\ntp8\ntp9\na."[..],
        b"]q\x00((X\x03\x00\x00\x00a.bq\x01(J\xe2\xc4FUG?\xf8\x00\x00\x00\x00\x00\x00tq\x02tq\x03\
           (X\x05\x00\x00\x00c;k=vq\x04(GA\xd5Q\xb18\x90\x00\x00J\xf9\xff\xff\xfftq\x05tq\x06(h\x01\
           (J\xff\xff\xff\xffX\x01\x00\x00\x003q\x07tq\x08tq\te.",
        b"\x80\x02]q\x00(X\x03\x00\x00\x00a.bq\x01J\xe2\xc4FUG?\xf8\x00\x00\x00\x00\x00\x00\x86q\
           \x02\x86q\x03X\x05\x00\x00\x00c;k=vq\x04GA\xd5Q\xb18\x90\x00\x00J\xf9\xff\xff\xff\x86q\
           \x05\x86q\x06h\x01J\xff\xff\xff\xffX\x01\x00\x00\x003q\x07\x86q\x08\x86q\te.",
        b"\x80\x04\x95F\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x03a.b\x94J\xe2\xc4FUG?\xf8\x00\x00\
           \x00\x00\x00\x00\x86\x94\x86\x94\x8c\x05c;k=v\x94GA\xd5Q\xb18\x90\x00\x00J\xf9\xff\xff\
           \xff\x86\x94\x86\x94h\x01J\xff\xff\xff\xff\x8c\x013\x94\x86\x94\x86\x94e.",
    ] {
        assert_eq!(
            read(frame),
            "a.b 1.5 1430701282, c;k=v -7 1430701282.25, a.b 3 -1",
            "{}",
            frame.escape_ascii()
        );
    }
}

#[test]
fn texts_of_python_2_are_read() {
    // STRING and SHORT_BINSTRING, as pickletools documents them.
    assert_eq!(read(b"(lp0\n(S'a.b'\np1\n(I5\nI1\ntp2\ntp3\na."), "a.b 1 5");
    assert_eq!(read(b"(l(S\"a'b\"\n(I5\nI01\ntta."), "a'b 1 5");
    assert_eq!(read(b"(l(S'a\\'b\\x41'\n(I5\nI01\ntta."), "a'bA 1 5");
    assert_eq!(read(b"]((U\x03a.b(K\x05K\x01tte."), "a.b 1 5");
    assert_eq!(read(b"(l(S'a\\xff'\n(I5\nI1\ntta."), "!! not_utf8");
    assert_eq!(read(b"(l(V\\u0436\\u043e\xe9\n(L5L\nL-1L\ntta."), "\u{436}\u{43e}\u{e9} -1 5");
}

#[test]
fn every_number_and_text_of_python_is_read() {
    let point = |value: &[u8]| read(&[b"]((X\x01\x00\x00\x00a(K\x05", value, b"tte."].concat());
    for (value, shown) in [
        (&b"J\xff\xff\xff\x7f"[..], "a 2147483647 5"),
        (b"K\xff", "a 255 5"),
        (b"M\xff\xff", "a 65535 5"),
        (b"\x8a\x00", "a 0 5"),
        (b"\x8a\x01\xff", "a -1 5"),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "a 18446744073709551615 5"),
        (b"\x8b\x02\x00\x00\x00\x00\x01", "a 256 5"),
        (b"\x88", "a 1 5"),
        (b"\x89", "a 0 5"),
        (b"F0.1\n", "a 0.1 5"),
        (b"Fnan\n", "a NaN 5"),
        (b"G?\xb9\x99\x99\x99\x99\x99\x9a", "a 0.1 5"),
        (b"B\x01\x00\x00\x007", "a 7 5"),
        (b"C\x017", "a 7 5"),
        (b"\x8c\x03 7 ", "a 7 5"),
        (b"\x8d\x01\x00\x00\x00\x00\x00\x00\x007", "a 7 5"),
        (b"\x8c\x03one", "a one 5"),
        // The list spoils only its item; so does an integer beyond 64 bits.
        (b"N", "! bad_number"),
        (b"]", "! bad_number"),
        (b"\x8c\x041 \n2", "! bad_number"),
        (b"\x8a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "! bad_number"),
    ] {
        assert_eq!(point(value), shown, "{}", value.escape_ascii());
    }
}

#[test]
fn an_item_that_is_no_point_spoils_no_other() {
    let item = |item: &[u8]| read(&[b"](", item, b"(U\x01b(K\x05K\x01ttl."].concat());
    for (text, reason) in [
        (&b"K\x01"[..], "not_a_point"),
        (b"(U\x01aK\x05t", "not_a_point"),
        (b"(U\x01a(K\x05tt", "not_a_point"),
        (b"(U\x01a(K\x05K\x06K\x07tt", "not_a_point"),
        (b"(K\x01(K\x05K\x06tt", "not_a_path"),
        (b"(U\x00(K\x05K\x06tt", "not_a_path"),
        (b"(U\x03a b(K\x05K\x06tt", "not_a_path"),
        (b"(U\x03a\nb(K\x05K\x06tt", "not_a_path"),
        (b"(U\x02#a(K\x05K\x06tt", "not_a_path"),
        (b"(U\x01\xff(K\x05K\x06tt", "not_a_path"),
        (b"(U\x01a(NK\x06tt", "bad_time"),
    ] {
        assert_eq!(item(text), format!("b 1 5, ! {reason}"), "{}", text.escape_ascii());
    }
    // A list that contains itself.
    assert_eq!(read(b"]q\x00h\x00a(U\x01b(K\x05K\x01tta."), "b 1 5, ! not_a_path");
}

#[test]
fn a_frame_that_is_no_list_of_points_is_refused_whole() {
    for (frame, reason) in [
        // carbon's test_protocols.py: IndexError, ValueError, ImportError.
        (&b"1"[..], "bad_pickle"),
        (b"i", "pickle_code"),
        (b"iii", "pickle_code"),
        (b"", "bad_pickle"),
        (b".", "bad_pickle"),
        (b"]", "bad_pickle"),
        (b"K\x01.", "not_a_list"),
        (b"}.", "not_a_list"),
        (b"(.", "bad_pickle"),
        (b"]K\x01(e.", "bad_pickle"),
        (b"h\x00.", "bad_pickle"),
        (b"](K\x01K\x02\x87l.", "bad_pickle"),
        (b"X\xff\xff\xff\xffabc", "bad_pickle"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa", "bad_pickle"),
        (b"\x80\x05].", "pickle_protocol"),
        (b"\xff", "bad_pickle"),
        // os.getcwd() in protocols 0, 2 and 4.
        (b"cposix\ngetcwd\np0\n(tRp1\n.", "pickle_code"),
        (b"\x80\x02cposix\ngetcwd\nq\x00)Rq\x01.", "pickle_code"),
        (
            b"\x80\x04\x95\x17\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06getcwd\x94\x93\x94)R\x94.",
            "pickle_code",
        ),
    ] {
        assert_eq!(read(frame), format!("!! {reason}"), "{}", frame.escape_ascii());
    }
}

#[test]
fn what_a_pickle_can_grow_to_is_limited() {
    assert_eq!(read(&[b'('; 1_000]), "!! pickle_limit");
    assert_eq!(read(&vec![b'K'; FRAME_MAX + 1]), "!! frame_too_long");
    // A long text that is used many times.
    let mut frame = b"]((U\xc8".to_vec();
    frame.extend([b'a'; 200]);
    frame.extend(b"q\x00(K\x05K\x01tt");
    for _ in 0..50_000 {
        frame.extend(b"(h\x00(K\x05K\x01tt");
    }
    frame.extend(b"e.");
    assert!(frame.len() <= FRAME_MAX);
    assert_eq!(read(&frame), "!! pickle_limit");
    let remembered = [b"]".to_vec(), vec![0x94; MEMO_MAX], b".".to_vec()].concat();
    assert_eq!(read(&remembered), "", "the same value under many keys");
    let deep = [vec![b']'; 500_000], vec![b'a'; 499_999], b".".to_vec()].concat();
    assert_eq!(read(&deep), "! not_a_point");
}

#[test]
fn streams_are_split_by_their_lengths() {
    assert_eq!(frame_bytes(b"\0\0\0"), Ok(None));
    assert_eq!(frame_bytes(b"\0\0\x01\0abc"), Ok(Some(260)));
    assert_eq!(frame_bytes(b"\0\x10\0\0"), Ok(Some(FRAME_MAX + HEADER_BYTES)));
    assert_eq!(frame_bytes(b"\0\x10\0\x01"), Err(Malformed::FrameTooLong));
    // Graphite plaintext on the wrong port.
    assert_eq!(frame_bytes(b"a.b 1 2\n"), Err(Malformed::FrameTooLong));
}

#[test]
fn python_is_read_as_it_writes() {
    let script = "import pickle, random, struct, sys\n\
        random.seed(7)\n\
        number = lambda: random.choice([random.randrange(-2**63, 2**64), random.randrange(300),\n\
        \x20 random.uniform(-1e9, 1e9), random.random(), 0, -1, 1e300, True])\n\
        for i in range(600):\n\
        \x20 path = lambda: ''.join(random.choice('abc.;=_\\u00e9\\u0436\\\\\\U0001f600') for _ in range(random.randrange(1, 12)))\n\
        \x20 paths = [path() for _ in range(3)]\n\
        \x20 points = [(random.choice(paths), (number(), number())) for _ in range(random.randrange(40))]\n\
        \x20 data = pickle.dumps(points, protocol=i % 5)\n\
        \x20 sys.stdout.buffer.write(struct.pack('!L', len(data)) + data)\n\
        \x20 for path, (at, value) in points:\n\
        \x20  sys.stderr.buffer.write(f'{path} {value + 0!r} {at + 0!r}\\n'.encode())\n";
    let out = Command::new("python3").args(["-c", script]).output().unwrap();
    let (mut stream, mut text) = (&out.stdout[..], Vec::new());
    let mut frames = 0;
    while let Some(length) = frame_bytes(stream).unwrap() {
        let (frame, rest) = stream.split_at(length);
        lines(&frame[HEADER_BYTES..], &mut text, &mut |reason| panic!("{reason}")).unwrap();
        (stream, frames) = (rest, frames + 1);
    }
    assert_eq!(frames, 600, "{}", String::from_utf8_lossy(&out.stderr));
    let (ours, python) = (String::from_utf8(text).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert_eq!(ours.lines().count(), python.lines().count());
    for (ours, python) in ours.lines().zip(python.lines()) {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (ours, python) = (words(ours), words(python));
        assert_eq!(ours[0], python[0]);
        for (ours, python) in ours[1..].iter().zip(&python[1..]) {
            // Floats are written differently, and integers alike.
            let same = ours == python || ours.parse::<f64>().unwrap() == python.parse().unwrap();
            assert!(same, "{ours} {python}");
        }
    }
}
