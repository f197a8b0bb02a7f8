//! The experiment `series-accuracy` from the command line.

use crate::support::Place;

/// A copy of the built-in file with fewer random updates.
fn copied(place: &Place) {
    let text = place.run(&["run", "--show", "series-accuracy"]).out;
    let short = text.replace("random = 1_000_000", "random = 300");
    assert_ne!(text, short);
    place.write("mine.toml", &short);
}

#[test]
fn the_published_tables_are_reproduced_beside_ours() {
    let place = Place::new();
    copied(&place);
    let ended = place.run(&["run", "./mine.toml", "--seed", "7"]);
    ended.status(0).prints("300 random updates, 1 to 12 s apart (--seed 7)");
    let rows: Vec<String> = ended
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for row in
        ["Graphite, published N/A 10 30", "whisper, here N/A 10 30", "rrdtool, here 50 22 30"]
    {
        assert!(rows.iter().any(|found| found == row), "{row} is not in\n{}", ended.out);
    }
    let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict =
        "Every total of tachograph's is the truth, and every published figure is reproduced.";
    assert!(words.ends_with(verdict), "{}", ended.out);
    let long = ended.out.lines().filter(|line| line.chars().count() > 80);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&str>::new());
    let ended = place.run(&["run", "./mine.toml", "--json"]);
    ended.status(2).says("--json applies only to experiments that load servers");
}

#[test]
fn a_peer_that_is_missing_is_skipped_with_what_to_do() {
    let place = Place::new();
    copied(&place);
    let mut command = place.command(&["run", "./mine.toml"]);
    command.env("PATH", place.dir.path());
    let ended = place.finish(command);
    ended.status(0).prints("rrdtool, here").prints("skipped: rrdtool, because it cannot be run");
    ended.prints("sudo apt install rrdtool").prints("skipped: whisper, because");
    ended.prints("tachograph, given it late").prints("Every total of tachograph's is the truth.\n");
    let mut command = place.command(&["doctor", "series-accuracy"]);
    command.env("PATH", place.dir.path());
    let ended = place.finish(command);
    ended
        .status(1)
        .prints("MISSING rrdtool (skipped without it); install it with: sudo apt install");
}

#[test]
fn a_figure_that_is_not_reproduced_fails_the_run() {
    let place = Place::new();
    copied(&place);
    let text = std::fs::read_to_string(place.path("mine.toml")).unwrap();
    place.write("mine.toml", &text.replace("rates = [50, 22, 30]", "rates = [50, 23, 30]"));
    let ended = place.run(&["run", "./mine.toml"]);
    ended.status(1).prints("WRONG: rrdtool, here, slot 1430701280: 22 instead of 23");
}
