//! Whether two answers are the same.

use record::{DifferenceKind, Pair, Side};

use crate::answer::{Answer, shortened};
use crate::json::{self, Differences};
use crate::pointer::JsonPattern;

/// The headers that are compared unless the user says otherwise: those by which a client acts
/// differently. Of `set-cookie` the names are compared, because values are mostly new for each answer.
pub const HEADERS: [&str; 6] = [
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "set-cookie",
    "www-authenticate",
];

/// What is compared.
#[derive(Clone, Debug)]
pub struct ComparisonRules {
    /// Names of headers in lower case, sorted.
    headers: Vec<String>,
    /// Places in bodies of JSON that are ignored.
    ignored: Vec<JsonPattern>,
}

/// The names under which a server knows itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnNames {
    /// Name and port in lower case, such as `127.0.0.1:8000`, and the name alone.
    authorities: Vec<String>,
}

impl OwnNames {
    /// Those of a server that is reached under one authority and called by another in `Host`.
    pub(crate) fn of(reached: &str, called: &str) -> OwnNames {
        let port = port(reached);
        let names = |authority: &str| {
            let name = without_port(authority).to_ascii_lowercase();
            let with_port = port.map(|port| format!("{name}:{port}"));
            [Some(authority.to_ascii_lowercase()), with_port, Some(name)]
        };
        let authorities = [reached, called].into_iter().flat_map(names).flatten().collect();
        OwnNames { authorities }
    }

    /// An address of the server itself without its scheme and authority, which differ between two
    /// servers that are started side by side; any other address as it is.
    fn relative<'a>(&self, location: &'a [u8]) -> &'a [u8] {
        let lower = location.to_ascii_lowercase();
        let scheme =
            ["http://", "https://", "//"].into_iter().find(|s| lower.starts_with(s.as_bytes()));
        let Some(scheme) = scheme else { return location };
        let rest = &lower[scheme.len()..];
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let is_own = self.authorities.iter().any(|own| own.as_bytes() == &rest[..end]);
        match &location[scheme.len() + end..] {
            _ if !is_own => location,
            b"" => b"/",
            path => path,
        }
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    }
}

fn port(authority: &str) -> Option<&str> {
    authority.strip_prefix(without_port(authority))?.strip_prefix(':')
}

impl ComparisonRules {
    /// A comparison of status, body, and [`HEADERS`] with these headers more and those less; ignoring
    /// places in bodies of JSON.
    pub fn new(more: &[String], less: &[String], ignored: Vec<JsonPattern>) -> ComparisonRules {
        let lower = |name: &String| name.trim().to_ascii_lowercase();
        let mut headers: Vec<String> = HEADERS.map(str::to_owned).into();
        headers.extend(more.iter().map(lower));
        let less: Vec<String> = less.iter().map(lower).collect();
        headers.retain(|name| !less.contains(name));
        headers.sort();
        headers.dedup();
        ComparisonRules { headers, ignored }
    }

    /// Names of the headers, in lower case.
    pub(crate) fn headers(&self) -> &[String] {
        &self.headers
    }

    /// How two answers differ; empty if they are the same. If the statuses differ, so does everything
    /// else, and nothing more is compared.
    pub(crate) fn differences(&self, answers: &Pair<Answer>, own: &Pair<OwnNames>) -> Differences {
        let Pair { old, new } = answers;
        let mut found = Differences::new();
        if old.status != new.status {
            let kind = DifferenceKind::Status { old: old.status, new: new.status };
            let values = Pair { old: old.status.to_string(), new: new.status.to_string() };
            found.insert(kind, values);
            return found;
        }
        if !old.has_head_of(new) {
            self.compare_headers(answers, own, &mut found);
        }
        if !old.body.equals(&new.body) {
            let by_value = old.json().zip(new.json());
            let by_value =
                by_value.and_then(|(old, new)| json::differences(old, new, &self.ignored));
            match by_value {
                Some(differences) => found.extend(differences),
                None => {
                    let values =
                        Pair { old: old.body.beside(&new.body), new: new.body.beside(&old.body) };
                    found.insert(DifferenceKind::Body, values);
                }
            }
        }
        found
    }

    fn compare_headers(
        &self,
        answers: &Pair<Answer>,
        own: &Pair<OwnNames>,
        found: &mut Differences,
    ) {
        for name in &self.headers {
            let value = |side: Side| value(answers.of(side), name, own.of(side));
            let (old, new) = (value(Side::Old), value(Side::New));
            if old != new {
                let shown = |value: Option<Vec<u8>>| match value {
                    None => "nothing".to_owned(),
                    // Of cookies there are only names.
                    Some(_) if name != "set-cookie" && base::is_secret_name(name) => {
                        "***".to_owned()
                    }
                    Some(value) => base::redact(&shortened(&value)),
                };
                let values = Pair { old: shown(old), new: shown(new) };
                found.insert(DifferenceKind::Header { name: name.clone() }, values);
            }
        }
    }
}

/// What of a header is compared: all values as a list (RFC 9110, 5.3), or the sorted names of cookies.
fn value(answer: &Answer, name: &str, own: &OwnNames) -> Option<Vec<u8>> {
    let mut values = answer.header(name);
    if values.is_empty() {
        return None;
    }
    if name == "set-cookie" {
        let until = |end: u8| move |byte: &u8| *byte == end;
        for value in &mut values {
            *value = value.split(until(b'=')).next().unwrap_or_default().trim_ascii();
        }
        values.sort_unstable();
    }
    if matches!(name, "location" | "content-location") {
        values.iter_mut().for_each(|value| *value = own.relative(value));
    }
    Some(values.join(&b", "[..]))
}

#[cfg(test)]
mod tests {
    use drive::http::Sink as _;

    use super::*;

    fn answer(text: &str) -> Answer {
        let (head, body) = text.split_once("\n\n").unwrap();
        let mut answer = Answer::default();
        answer.head(format!("HTTP/1.1 {}\r\n\r\n", head.replace('\n', "\r\n")).as_bytes());
        answer.status(head[..3].parse().unwrap());
        answer.body(body.as_bytes());
        answer
    }

    fn found_with(comparison: &ComparisonRules, old: &str, new: &str) -> Vec<String> {
        let answers = Pair { old: answer(old), new: answer(new) };
        let own = Pair {
            old: OwnNames::of("127.0.0.1:8001", "localhost"),
            new: OwnNames::of("127.0.0.1:8002", "localhost"),
        };
        let found = comparison.differences(&answers, &own);
        let one = |(kind, values): (DifferenceKind, Pair<String>)| {
            format!("{kind:?}: {} | {}", values.old, values.new)
        };
        found.into_iter().map(one).collect()
    }

    fn found(old: &str, new: &str) -> Vec<String> {
        found_with(&ComparisonRules::new(&[], &[], Vec::new()), old, new)
    }

    #[test]
    fn answers_that_differ_only_in_what_does_not_matter_are_the_same() {
        for (old, new) in [
            ("200 OK\nDate: a\nServer: x\n\nbody", "200 Fine\nDate: b\n\nbody"),
            (
                "200 OK\nSet-Cookie: a=1; Path=/\nset-cookie: b=2\n\n",
                "200 OK\nSet-Cookie: b=3\nSet-Cookie: a=4\n\n",
            ),
            (
                "200 OK\nContent-Type: application/json\n\n{\"a\":1}",
                "200 OK\ncontent-type: application/json\n\n{ \"a\": 1.0 }",
            ),
            (
                "200 OK\nContent-Type: application/hal+json; charset=utf-8\n\n[]",
                "200 OK\nContent-Type: application/hal+json; charset=utf-8\n\n[ ]",
            ),
            (
                "302 Found\nLocation: http://127.0.0.1:8001/a?b\n\n",
                "302 Found\nLocation: http://127.0.0.1:8002/a?b\n\n",
            ),
            ("302 Found\nLocation: http://localhost:8001\n\n", "302 Found\nLocation: /\n\n"),
            (
                "302 Found\nLocation: https://LOCALHOST/a\n\n",
                "302 Found\nLocation: //localhost:8002/a\n\n",
            ),
            ("200 OK\nCache-Control: a\nCache-Control: b\n\n", "200 OK\nCache-Control: a, b\n\n"),
        ] {
            assert_eq!(found(old, new), [""; 0], "{old} {new}");
        }
    }

    #[test]
    fn each_part_of_an_answer_can_differ() {
        let json = "Content-Type: application/json";
        for (old, new, all) in [
            (
                "200 OK\nLocation: a\n\na",
                "500 No\n\nb",
                vec!["Status { old: 200, new: 500 }: 200 | 500"],
            ),
            ("200 OK\n\nold", "200 OK\n\nnew!", vec!["Body: 3 bytes: old | 4 bytes: new!"]),
            (
                "200 OK\nContent-Type: a\n\nx",
                "200 OK\nCache-Control: b\n\ny",
                vec![
                    "Header { name: \"cache-control\" }: nothing | b",
                    "Header { name: \"content-type\" }: a | nothing",
                    "Body: 1 byte: x | 1 byte: y",
                ],
            ),
            (
                "200 OK\nSet-Cookie: sid=secret\n\n",
                "200 OK\nSet-Cookie: id=secret\n\n",
                vec!["Header { name: \"set-cookie\" }: sid | id"],
            ),
            (
                "302 Found\nLocation: http://127.0.0.1:8001/a\n\n",
                "302 Found\nLocation: http://other:8001/a\n\n",
                vec!["Header { name: \"location\" }: /a | http://other:8001/a"],
            ),
            (
                &format!("200 OK\n{json}\n\n{{\"a\":1}}"),
                &format!("200 OK\n{json}\n\n{{\"a\":2}}"),
                vec!["JsonValue { pointer: \"/a\" }: 1 | 2"],
            ),
            (
                &format!("200 OK\n{json}\n\n{{\"a\":1}}"),
                &format!("200 OK\n{json}\n\nnone"),
                vec!["Body: 7 bytes: {\"a\":1} | 4 bytes: none"],
            ),
            (
                "200 OK\nContent-Type: text/plain\n\n1",
                "200 OK\nContent-Type: text/plain\n\n1.0",
                vec!["Body: 1 byte: 1 | 3 bytes: 1.0"],
            ),
        ] {
            assert_eq!(found(old, new), all);
        }
    }

    #[test]
    fn headers_are_added_and_left_out() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let comparison = ComparisonRules::new(
            &names(&["ETag", "x-Api-Key", "location"]),
            &names(&["Content-Type"]),
            Vec::new(),
        );
        let shown = found_with(
            &comparison,
            "200 OK\nContent-Type: a\nETag: 1\nX-Api-Key: k1\n\n",
            "200 OK\nContent-Type: b\netag: 2\nX-Api-Key: k2\n\n",
        );
        let expected =
            ["Header { name: \"etag\" }: 1 | 2", "Header { name: \"x-api-key\" }: *** | ***"];
        assert_eq!(shown, expected);
        assert_eq!(comparison.headers().len(), HEADERS.len() + 1);
    }
}
