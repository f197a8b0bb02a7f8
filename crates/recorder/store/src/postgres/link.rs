//! The connection: opened when needed, and reopened after a loss.

use std::collections::HashMap;
use std::time::Duration;

use postgres::config::Host;
use postgres::{Client, Config, NoTls, Statement, Transaction};

use super::error::{explain, text};
use crate::{Abandonment, StoreError};

/// Timeout for connecting, unless the URL sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long sent data may stay unacknowledged.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);

/// Silence after which the kernel asks whether the server is still there, and how often from then
/// on. A server that vanishes after it has acknowledged a statement sends nothing any more.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_EACH: Duration = Duration::from_secs(10);

/// The kernel's silence, which is what a URL without the option gets.
const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

/// Settings of a connection: commits are on disk, times are in UTC, and statements are planned once,
/// independent of their parameters. Nothing waits for a lock for ever, and a process that is suspended
/// in its transaction does not keep its locks: all other writers would wait for it.
const SESSION: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET TIME ZONE 'UTC'; SET datestyle = 'ISO'; SET client_min_messages = warning;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off';
    SELECT set_config('lock_timeout', '30s', false)
    WHERE current_setting('lock_timeout') = '0';
    SELECT set_config('idle_in_transaction_session_timeout', '60s', false)
    WHERE current_setting('idle_in_transaction_session_timeout') = '0'";

/// A connection that can be reopened.
pub(super) struct PostgresConnection {
    config: Config,
    client: Option<Client>,
    statements: HashMap<String, Statement>,
    place: String,
    pub(super) abandonment: Abandonment,
}

impl PostgresConnection {
    /// Parses a URL; connects later.
    pub(super) fn new(url: &str) -> Result<PostgresConnection, StoreError> {
        let mut config: Config = url.parse().map_err(|cause: postgres::Error| StoreError::Url {
            url: without_password(url),
            cause: text(&cause),
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(NETWORK_TIMEOUT);
        }
        if config.get_keepalives_idle() == KEEP_ALIVE_DEFAULT {
            config.keepalives_idle(KEEP_ALIVE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEP_ALIVE_EACH);
        }
        if config.get_application_name().is_none() {
            config.application_name("tachograph");
        }
        let place = place(&config);
        let (statements, abandonment) = (HashMap::new(), Abandonment::default());
        Ok(PostgresConnection { config, client: None, statements, place, abandonment })
    }

    /// Host and database.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Runs `work` in a transaction, and commits if it succeeds.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut OpenTransaction<'_>) -> Result<T, TransactionFailure>,
    ) -> Result<T, StoreError> {
        if self.abandonment.is_told() {
            return Err(StoreError::Abandoned);
        }
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.connect()?;
        }
        let Some(client) = &mut self.client else {
            return Err(StoreError::Lost { place: self.place.clone() });
        };
        let statements = &mut self.statements;
        let done =
            client.transaction().map_err(TransactionFailure::Postgres).and_then(|transaction| {
                let mut session = OpenTransaction { transaction, statements };
                let done = work(&mut session)?;
                session.transaction.commit()?;
                Ok(done)
            });
        done.map_err(|failure| match failure {
            _ if self.abandonment.is_told() => StoreError::Abandoned,
            TransactionFailure::Postgres(error) => explain(&self.place, false, &error),
            TransactionFailure::Value(cause) => {
                StoreError::Value { place: self.place.clone(), cause }
            }
            TransactionFailure::Store(error) => error,
            TransactionFailure::GivenUp => StoreError::Busy { place: self.place.clone() },
        })
    }

    /// Makes the space of a table's dead rows reusable. Does not block.
    pub(super) fn vacuum(&mut self, table: &str) -> Result<(), postgres::Error> {
        let Some(client) = &mut self.client else { return Ok(()) };
        client.batch_execute(&format!("VACUUM (SKIP_LOCKED, TRUNCATE off) {table}"))
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        self.client = None;
        self.statements.clear();
        let mut client = self.config.connect(NoTls).map_err(|e| explain(&self.place, true, &e))?;
        client.batch_execute(SESSION).map_err(|e| explain(&self.place, true, &e))?;
        self.abandonment.connected(client.cancel_token());
        self.client = Some(client);
        Ok(())
    }
}

/// Why a transaction was aborted.
pub(super) enum TransactionFailure {
    Postgres(postgres::Error),
    Value(String),
    Store(StoreError),
    /// For a reason known to the caller.
    GivenUp,
}

impl From<postgres::Error> for TransactionFailure {
    fn from(error: postgres::Error) -> TransactionFailure {
        TransactionFailure::Postgres(error)
    }
}

impl From<serde_json::Error> for TransactionFailure {
    fn from(error: serde_json::Error) -> TransactionFailure {
        TransactionFailure::Value(error.to_string())
    }
}

impl From<StoreError> for TransactionFailure {
    fn from(error: StoreError) -> TransactionFailure {
        TransactionFailure::Store(error)
    }
}

/// A transaction, with the connection's prepared statements.
pub(super) struct OpenTransaction<'a> {
    /// The transaction.
    pub(super) transaction: Transaction<'a>,
    statements: &'a mut HashMap<String, Statement>,
}

impl OpenTransaction<'_> {
    /// The statement, prepared once per connection.
    pub(super) fn prepared(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.transaction.prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a prepared query.
    pub(super) fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<postgres::Row>, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.transaction.query(&statement, params)
    }

    /// The only value of a query without parameters.
    pub(super) fn query_one_bool(&mut self, sql: &str) -> Result<bool, postgres::Error> {
        self.transaction.query_one(sql, &[])?.try_get(0)
    }

    /// Runs a prepared statement; returns the number of rows changed.
    pub(super) fn execute(
        &mut self,
        sql: &str,
        params: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<u64, postgres::Error> {
        let statement = self.prepared(sql)?;
        self.transaction.execute(&statement, params)
    }
}

/// `host:port/database`, or the folder of a Unix socket.
fn place(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => "an unnamed host".to_owned(),
    };
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    format!("{host}/{database}")
}

/// The URL with stars for the password, and without its options, one of which may be a password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    // A question mark may be in a password, and an @ in an option: then nothing is safe to show.
    if rest.find('?').zip(rest.rfind('@')).is_some_and(|(option, at)| option < at) {
        return format!("{scheme}://***");
    }
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let Some((user, host)) = rest.rsplit_once('@') else { return format!("{scheme}://{rest}") };
    match user.split_once(':') {
        Some((name, _)) => format!("{scheme}://{name}:***@{host}"),
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_without_its_password() {
        let place = |url: &str| PostgresConnection::new(url).map(|link| link.place).unwrap();
        assert_eq!(
            place("postgres://ada:secret@db.example:6000/metrics"),
            "db.example:6000/metrics"
        );
        assert_eq!(place("postgresql:///metrics?host=/run/pg&user=ada"), "/run/pg/metrics");
        assert_eq!(
            without_password("postgres://ada:se@cret@db/x"),
            "postgres://ada:***@db/x",
            "a password may have an @"
        );
        assert_eq!(without_password("postgres:///x?password=secret&port=y"), "postgres:///x");
        assert_eq!(without_password("postgres://ada:sec?ret@db/x"), "postgres://***");
    }

    #[test]
    fn no_connection_waits_for_ever_unless_it_is_told_to() {
        let server = throwaway::Throwaway::start(&["fsync=off"]).unwrap();
        let settings = |options: &str| -> (String, String) {
            let url = format!("{}{options}", server.url("postgres"));
            let mut link = PostgresConnection::new(&url).unwrap();
            assert_eq!(link.config.get_keepalives_idle(), KEEP_ALIVE);
            let mut show = |name: &str| {
                let sql = format!("SHOW {name}");
                let shown = link.transaction(|session| {
                    Ok(session.transaction.query_one(&sql, &[])?.try_get(0)?)
                });
                shown.unwrap()
            };
            (show("lock_timeout"), show("idle_in_transaction_session_timeout"))
        };
        assert_eq!(settings(""), ("30s".to_owned(), "1min".to_owned()));
        let told = "&options=-c%20lock_timeout=2h%20-c%20idle_in_transaction_session_timeout=1h";
        assert_eq!(settings(told), ("2h".to_owned(), "1h".to_owned()));
    }

    #[test]
    fn a_url_that_cannot_be_read_says_how_one_looks() {
        let error =
            PostgresConnection::new("postgres://ada:secret@host:port/x").err().unwrap().to_string();
        assert_eq!(
            error,
            "'postgres://ada:***@host:port/x' is not the URL of a PostgreSQL database (invalid connection string: invalid value for option `port`): write postgres://user@host/database, or postgres:///database?host=/var/run/postgresql for a Unix socket"
        );
    }
}
