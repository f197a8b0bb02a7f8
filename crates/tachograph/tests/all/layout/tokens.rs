//! The tokens of a file of Rust, without comments, attributes, and what is compiled only for tests.

/// The tokens that the product is made of. Texts and characters are `""`; lifetimes are left out.
pub(crate) fn product(text: &str) -> Vec<&str> {
    let tokens = tokens(text);
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        match attribute_end(&tokens, at) {
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
            Some(end) => {
                let is_of_tests = tokens[at..end].concat() == "#[cfg(test)]";
                at = if is_of_tests { item_end(&tokens, end) } else { end };
            }
        }
    }
    kept
}

/// Where the attribute that begins at a place ends.
fn attribute_end(tokens: &[&str], at: usize) -> Option<usize> {
    match &tokens[at..] {
        ["#", "[", ..] => Some(closed(tokens, at + 1)),
        ["#", "!", "[", ..] => Some(closed(tokens, at + 2)),
        _ => None,
    }
}

/// The place after the bracket that closes the one at a place.
pub(crate) fn closed(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The place after an item, with its further attributes.
fn item_end(tokens: &[&str], mut at: usize) -> usize {
    while at < tokens.len() {
        if let Some(end) = attribute_end(tokens, at) {
            at = end;
            continue;
        }
        match tokens[at] {
            ";" => return at + 1,
            "{" => return closed(tokens, at),
            "(" | "[" => at = closed(tokens, at),
            // The end of what the item is in.
            "}" => return at,
            _ => at += 1,
        }
    }
    at
}

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, token) = next(rest, first);
        tokens.extend(token);
        rest = &rest[length..];
    }
    tokens
}

/// The bytes of what comes next, and the token if it is one.
fn next(rest: &str, first: char) -> (usize, Option<&str>) {
    if let Some(length) = text_bytes(rest) {
        return (length, Some("\"\""));
    }
    let word_bytes =
        |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    match first {
        _ if first.is_whitespace() => (first.len_utf8(), None),
        '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
        '/' if rest.starts_with("/*") => (comment_bytes(rest), None),
        '\'' => (1 + word_bytes(&rest[1..]), None),
        ':' if rest.starts_with("::") => (2, Some(&rest[..2])),
        'r' if rest.starts_with("r#") => {
            let length = 2 + word_bytes(&rest[2..]);
            (length, Some(&rest[2..length]))
        }
        _ if first.is_alphanumeric() || first == '_' => {
            let length = word_bytes(rest);
            (length, Some(&rest[..length]))
        }
        _ => (first.len_utf8(), Some(&rest[..first.len_utf8()])),
    }
}

/// The bytes of a text or character in quotes, if one begins here.
fn text_bytes(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let prefix = bytes.iter().take_while(|byte| b"bcr".contains(byte)).count();
    let hashes = bytes[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    let is_raw = rest[..prefix].ends_with('r');
    match bytes.get(open)? {
        b'"' if is_raw => {
            let end = format!("\"{}", "#".repeat(hashes));
            Some(open + 1 + rest[open + 1..].find(&end)? + end.len())
        }
        quote @ b'"' if hashes == 0 && prefix <= 1 => {
            Some(open + 1 + quoted(&bytes[open + 1..], *quote))
        }
        // A lifetime has no second quote after one character.
        quote @ b'\'' if hashes == 0 && matches!(&rest[..prefix], "" | "b") => {
            let mut inner = rest[open + 1..].chars();
            let is_character = inner.next()? == '\\' || inner.next()? == '\'';
            is_character.then(|| open + 1 + quoted(&bytes[open + 1..], *quote))
        }
        _ => None,
    }
}

/// The bytes up to the end of a text, with its quote.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The bytes of a comment in which there may be others.
fn comment_bytes(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 || at >= rest.len() {
            return at.min(rest.len());
        }
    }
}

#[test]
fn comments_texts_and_tests_are_left_out() {
    let text = r####"
        //! crate::a
        /* crate::b /* crate::c */ crate::d */
        #[derive(Debug)]
        struct A<'a>(&'a str, char);
        const B: &str = "crate::e \" // no comment";
        const C: &str = r#"crate::f " "#;
        const D: [char; 3] = ['\'', '"', b'}' as char];
        #[cfg(test)]
        #[allow(x)]
        mod tests { use crate::g; }
        #[cfg(test)]
        mod further;
        fn r#type() { r#mod::h() }
    "####;
    let expected = "struct A < > ( & str , char ) ; const B : & str = \"\" ; \
         const C : & str = \"\" ; const D : [ char ; 3 ] = [ \"\" , \"\" , \"\" as char ] ; \
         fn type ( ) { mod :: h ( ) }";
    assert_eq!(product(text).join(" "), expected);
}
