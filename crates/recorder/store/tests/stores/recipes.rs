//! Every statement of docs/sql.md, with the results printed there.

use postgres::{Client, NoTls, SimpleQueryMessage};
use rusqlite::types::Value;
use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use store::{
    Changes, Identity, NewSeries, Postgres, Retention, SeriesLimit, Sqlite, Store, Writer,
};

use crate::place::server;

const PAGE: &str = include_str!("../../../../../docs/sql.md");

/// 2026-03-01T00:00:00Z.
const MIDNIGHT_US: i64 = 1_772_323_200 * SECOND_US;
const MINUTE_US: i64 = 60 * SECOND_US;

/// A statement of the page, its databases, and its result.
struct Recipe {
    line: usize,
    databases: String,
    sql: String,
    answer: Vec<String>,
}

/// The statements for one database. A result belongs to all statements since the previous result.
fn recipes(database: &str) -> Vec<Recipe> {
    let mut recipes: Vec<Recipe> = Vec::new();
    let mut unanswered = 0;
    let mut block: Option<(usize, &str, Vec<&str>)> = None;
    for (index, line) in PAGE.lines().enumerate() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some((index + 1, kind, Vec::new())),
            (Some((_, _, lines)), None) => lines.push(line),
            (Some(_), Some(_)) => {
                let (line, kind, lines) = block.take().unwrap();
                if let Some(databases) = kind.strip_prefix("sql ") {
                    let (databases, sql) = (databases.to_owned(), lines.join("\n"));
                    recipes.push(Recipe { line, databases, sql, answer: Vec::new() });
                } else if kind == "text" {
                    for recipe in &mut recipes[unanswered..] {
                        recipe.answer = lines.iter().map(|line| (*line).to_owned()).collect();
                    }
                    unanswered = recipes.len();
                }
            }
            (None, None) => {}
        }
    }
    recipes.retain(|recipe| recipe.databases.split(' ').any(|d| d == database));
    assert!(recipes.len() >= 8, "the page has recipes for {database}");
    recipes
}

/// Records the data described on the page.
fn record(store: &mut dyn Store) {
    let steps = [10, 60, 300, 3_600].map(|step_s| Retention::from_secs(step_s, None).unwrap());
    store.retain(&steps).unwrap();
    let named = |measurement, customer, step_s| {
        let identity = Identity::new(measurement, [("customer", customer)]);
        NewSeries::new(identity, Spec::new(Kind::Count, Step::from_secs(step_s).unwrap()))
    };
    let wanted = [
        named("requests", "acme", 10),
        named("requests", "bolt", 10),
        named("traffic", "acme", 300),
    ];
    let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    let [acme, bolt, traffic] =
        made.into_iter().collect::<Result<Vec<_>, _>>().unwrap().try_into().unwrap();
    let mut changes = Changes::default();
    let mut count = |series: &store::Series, from_us: i64, us: i64, count: i64| {
        let interval = Interval::count(from_us, from_us + us, count).unwrap();
        for (slot_us, part) in interval.slots(series.spec.step) {
            let key = SlotKey { slot_us, series: series.id, lane: 0 };
            changes.add(series.spec.step, key, Delta::widen(part));
        }
    };
    for minute in 0..10 {
        let from_us = MIDNIGHT_US + minute * MINUTE_US;
        if !(4..6).contains(&minute) {
            count(&acme, from_us, MINUTE_US, 60);
        }
        count(&bolt, from_us, MINUTE_US, 30 + 6 * minute);
    }
    for slot in 0..20 {
        count(&traffic, MIDNIGHT_US + slot * 5 * MINUTE_US, 5 * MINUTE_US, (slot + 1) * 3_750_000);
    }
    store.apply(Writer(1), 1, &changes).unwrap();
}

const CUSTOMERS: &str =
    "INSERT INTO customers VALUES ('acme', 'Acme Ltd', 2000), ('bolt', 'Bolt & Sons', 1000)";

/// Numbers in a common form, and times as in SQLite's view.
fn normal(word: &str) -> String {
    if let Ok(number) = word.parse::<f64>() {
        return number.to_string();
    }
    match word.strip_suffix("+00") {
        Some(time) => format!("{}Z", time.replace(' ', "T")),
        None => word.to_owned(),
    }
}

fn check(recipe: &Recipe, rows: Vec<Vec<String>>) {
    let rows: Vec<String> = rows
        .iter()
        .map(|row| row.iter().map(|word| normal(word)).collect::<Vec<_>>().join(" | "))
        .collect();
    assert_eq!(rows, recipe.answer, "docs/sql.md:{}\n{}", recipe.line, recipe.sql);
}

#[test]
fn the_recipes_give_what_the_page_says_in_postgresql() {
    let url = server().database("recipes").unwrap();
    record(&mut Postgres::open(&url).unwrap());
    let mut owner = Client::connect(&url, NoTls).unwrap();
    let create = PAGE.lines().find(|line| line.starts_with("CREATE TABLE customers")).unwrap();
    owner.batch_execute(create).unwrap();
    owner.batch_execute(CUSTOMERS).unwrap();
    owner
        .batch_execute(
            "CREATE ROLE ada LOGIN IN ROLE tachograph_reader; GRANT SELECT ON customers TO ada",
        )
        .unwrap();

    // The reader is a different user than the writer.
    let mut reader = Client::connect(&url.replace("user=postgres", "user=ada"), NoTls).unwrap();
    reader.batch_execute("SET TIME ZONE 'UTC'").unwrap();
    for recipe in recipes("postgresql") {
        let messages = reader.simple_query(&recipe.sql);
        let messages = messages.unwrap_or_else(|e| panic!("docs/sql.md:{}: {e:?}", recipe.line));
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|i| row.get(i).unwrap_or("NULL").to_owned()).collect())
            }
            _ => None,
        });
        check(&recipe, rows.collect());
    }
    for forbidden in [
        "SELECT * FROM slot_10s",
        "SELECT * FROM writer",
        "INSERT INTO retention VALUES (1, 1, 1, 1)",
        "DELETE FROM series",
        "DROP VIEW every_10s",
    ] {
        let error = reader.batch_execute(forbidden).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{forbidden}: {error}");
    }
}

#[test]
fn the_recipes_give_what_the_page_says_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.sqlite");
    record(&mut Sqlite::open(&path).unwrap());
    let db = rusqlite::Connection::open(&path).unwrap();
    let create = PAGE.lines().find(|line| line.starts_with("CREATE TABLE customers")).unwrap();
    db.execute_batch(create).unwrap();
    db.execute_batch(CUSTOMERS).unwrap();
    drop(db);

    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = rusqlite::Connection::open_with_flags(&path, flags).unwrap();
    for recipe in recipes("sqlite") {
        let mut statement = reader
            .prepare(&recipe.sql)
            .unwrap_or_else(|e| panic!("docs/sql.md:{}: {e}", recipe.line));
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..columns)
                .map(|column| {
                    Ok(match row.get::<_, Value>(column)? {
                        Value::Null => "NULL".to_owned(),
                        Value::Integer(number) => number.to_string(),
                        Value::Real(number) => number.to_string(),
                        Value::Text(text) => text,
                        Value::Blob(bytes) => format!("{bytes:?}"),
                    })
                })
                .collect()
        });
        check(&recipe, rows.unwrap().map(Result::unwrap).collect());
    }
    assert!(reader.execute_batch("DELETE FROM series").is_err());
}
