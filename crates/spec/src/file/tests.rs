use super::*;
use crate::plan::{Contrast, Ready};

const HEAD: &str = "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n";

const TWO: &str = r#"
[stack.app]
process = { command = "app --bind $BIND", ready = "$BIND" }
target = "http://$BIND"

[[variant]]
name = "tcp"
stack = "app"
vars = { BIND = "127.0.0.1:$PORT" }

[[variant]]
name = "unix"
stack = "app"
vars = { BIND = "unix:$SOCKET" }
"#;

fn plan(text: &str) -> Plan {
    match parse_plan(text, "x.toml") {
        Ok(plan) => plan,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_stack_is_written_once_and_varied_by_variables() {
    let plan = plan(&format!("{HEAD}{TWO}"));
    let part = &plan.parts[0];
    assert_eq!((plan.parts.len(), part.name.as_str(), part.question.as_str()), (1, "x", "q"));
    let [tcp, unix] = part.variants.as_slice() else { panic!("two variants") };
    assert_eq!(tcp.target, "http://127.0.0.1:$PORT");
    assert_eq!(tcp.stack.processes[0].name, "app");
    assert_eq!(tcp.stack.processes[0].command, "app --bind 127.0.0.1:$PORT");
    assert_eq!(tcp.stack.processes[0].ready, [Ready::Port("127.0.0.1:$PORT".to_owned())]);
    assert_eq!(unix.target, "http://unix:$SOCKET");
    assert_eq!(unix.stack.processes[0].ready, [Ready::Socket("$SOCKET".to_owned())]);
    assert_eq!(part.contrasts, [Contrast { baseline: 0, variant: 1 }]);
}

#[test]
fn the_built_in_experiments_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of experiments") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        let plan = match parse_plan(&text, &path.display().to_string()) {
            Ok(plan) => plan,
            Err(error) => panic!("{error}"),
        };
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert_eq!(plan.name, stem, "an experiment is named like its file");
        seen += 1;
    }
    assert!(seen >= 1, "no experiment was read");
}
