//! Axes of variants, stacks in front of stacks, and parts that select by pattern.

use super::*;

const MATRIX: &str = r#"
[stack.one]
process = { command = "one $BIND", ready = "$BIND" }
python = ["one==1"]

[stack.two]
process = { command = "two $BIND", ready = "$BIND" }
python = ["one==1", "two==2"]

[stack.front]
process = { command = "front", ready = "127.0.0.1:$PORT2" }
target = "http://127.0.0.1:$PORT2/$SIZE"

[[variant]]
name = "$APP-$TRANSPORT-$SIZE"
stack = ["$APP", "front"]
load = { connections = "$SIZE" }

[variant.each]
APP = ["two", "one"]
SIZE = ["64", "8"]
TRANSPORT.tcp = { BIND = "127.0.0.1:$PORT" }
TRANSPORT.unix = { BIND = "unix:$SOCKET" }
"#;

fn names(part: &crate::Part) -> Vec<&str> {
    part.variants.iter().map(|variant| variant.name.as_str()).collect()
}

#[test]
fn a_variant_is_written_once_for_every_place_on_its_axes() {
    let plan = plan(&format!("{HEAD}{MATRIX}"));
    let part = &plan.parts[0];
    assert_eq!(
        names(part),
        [
            "two-tcp-64",
            "two-unix-64",
            "two-tcp-8",
            "two-unix-8",
            "one-tcp-64",
            "one-unix-64",
            "one-tcp-8",
            "one-unix-8"
        ]
    );
    let variant = &part.variants[3];
    let at = [("APP", "two"), ("SIZE", "8"), ("TRANSPORT", "unix")];
    assert_eq!(variant.at, at.map(|(axis, label)| (axis.to_owned(), label.to_owned())));
    assert_eq!(variant.load.connections, 8);
    assert_eq!(variant.target, "http://127.0.0.1:$PORT2/8");
    let commands: Vec<&str> =
        variant.stack.processes.iter().map(|process| process.command.as_str()).collect();
    assert_eq!(commands, ["two unix:$SOCKET", "front"]);
    assert_eq!(variant.stack.python, ["one==1", "two==2"]);
    assert_eq!(plan.python, ["one==1", "two==2"]);
}

#[test]
fn a_part_chooses_variants_by_pattern_each_once() {
    let more = r#"
[[part]]
name = "some"
variants = ["one-unix-8", "one-*-8", "*-tcp-*"]
"#;
    let plan = plan(&format!("{HEAD}{MATRIX}{more}"));
    assert_eq!(
        names(&plan.parts[0]),
        ["one-unix-8", "one-tcp-8", "two-tcp-64", "two-tcp-8", "one-tcp-64"]
    );
    let none = more.replace("*-tcp-*", "*-udp");
    assert_eq!(refusal(&format!("{HEAD}{MATRIX}{none}")).0, "there is no variant '*-udp'");
}

#[test]
fn an_axis_says_where_it_is_wrong() {
    let axis = |axis: &str| {
        let each = format!("\n[[variant]]\nname = \"n\"\nstack = \"app\"\neach = {axis}\n");
        let (message, _, _, help) = refusal(&text("", &each));
        (message, help)
    };
    let cases = [
        ("{ A = [] }", "$A has no values", ""),
        ("{ A = {} }", "$A has no values", ""),
        ("{ A = { x = 1 } }", "a value of A must be a table, not a whole number", ""),
        ("{ A = { x = { PORT = \"1\" } } }", "$PORT is set by tachograph; choose another name", ""),
        ("{ A = { x = { B = \"$BIND\" } } }", "a variable cannot refer to another one ($BIND)", ""),
    ];
    for (written, message, help) in cases {
        assert_eq!(axis(written), (message.to_owned(), help.to_owned()), "{written}");
    }
    let twice =
        "\n[[variant]]\nname = \"n\"\nstack = \"app\"\neach = { BIND = [\"h:1\", \"h:2\"] }\n";
    assert_eq!(refusal(&text("", twice)).0, "two variants are named 'n'");
}

const GROUPS: &str = r#"
[[part]]
name = "some"
variants = ["two", "@small"]

[[part]]
name = "others"
variants = ["@large"]
"#;

fn member(name: &str, groups: &str) -> String {
    format!(
        "[[variant]]\nname = \"{name}\"\ngroups = {groups}\ntarget = \"http://127.0.0.1:$PORT\"\nprocess = {{ command = \"x\" }}\n"
    )
}

#[test]
fn a_part_takes_what_says_that_it_is_in_a_group() {
    let all = member("one", "[\"small\", \"large\"]") + &member("two", "[\"small\"]");
    let plan = plan(&format!("{HEAD}{all}{GROUPS}"));
    assert_eq!(names(&plan.parts[0]), ["two", "one"]);
    assert_eq!(names(&plan.parts[1]), ["one"]);
}

#[test]
fn a_missing_group_is_an_error_on_either_side() {
    let all = member("one", "[\"small\", \"large\"]") + &member("two", "[\"small\"]");
    let refused = |more: &str| {
        let (message, _, _, help) = refusal(&format!("{HEAD}{all}{more}{GROUPS}"));
        (message, help)
    };
    let own = |message: &str, help: &str| (message.to_owned(), help.to_owned());
    assert_eq!(
        refused(&member("three", "[\"smal\"]")),
        own("no part uses the group 'smal'", "did you mean 'small'?")
    );
    assert_eq!(
        refused(&member("three", "[]")),
        own(
            "no part uses the variant 'three'",
            "add it to a group: groups = [\"small\"] or [\"large\"]"
        )
    );
    let wrong = |all: &str| {
        let (message, _, _, help) = refusal(&format!("{HEAD}{all}{GROUPS}"));
        (message, help)
    };
    assert_eq!(
        wrong(&all.replace(", \"large\"", "")),
        own("there is no group 'large'", "there are: small")
    );
    assert_eq!(
        wrong(&(member("one", "[]") + &member("two", "[]")).replace("\"one\"", "\"two-b\"")),
        own(
            "no part uses the variant 'two-b'",
            "add it to a group: groups = [\"small\"] or [\"large\"]"
        )
    );
    let alone = "[[part]]\nname = \"p\"\nvariants = [\"two\", \"@small\"]\n";
    let (message, _, _, help) = refusal(&format!("{HEAD}{}{alone}", member("two", "[]")));
    assert_eq!(
        (message, help),
        own("there is no group 'small'", "a variant declares its groups: groups = [\"NAME\"]")
    );
}
