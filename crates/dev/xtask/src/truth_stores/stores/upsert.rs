//! A table of PostgreSQL with a row for each slot, to which every message adds: what people write
//! themselves.

use postgres::{Client, NoTls};
use throwaway::Throwaway;

use super::{
    AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name, version_of,
};
use crate::truth_stores::history::SLOT_S;

pub(super) const UPSERT: StoreKind = StoreKind {
    name: "PostgreSQL, upsert",
    protocol: "`INSERT … ON CONFLICT (series, slot) DO UPDATE SET total = slots.total + excluded.total`, one transaction for each message, in the slot in which its interval ends",
    settings: "the defaults (`synchronous_commit = on`)",
    query: "`SELECT sum(total)`",
    install: "apt-get install postgresql",
    times: Times::Message,
    version: || version_of("psql", &["--version"]),
    open: |folder, _: Quantity| {
        let server = Throwaway::start_in(folder, &[]).map_err(|error| error.to_string())?;
        let mut client = connect(&server)?;
        client.batch_execute(TABLE).map_err(|error| error.to_string())?;
        Ok(Box::new(Upsert { server, client: Some(client) }))
    },
};

const TABLE: &str = "CREATE TABLE slots (series text, slot bigint, total bigint NOT NULL, \
                     PRIMARY KEY (series, slot))";

const ADD: &str = "INSERT INTO slots VALUES ($1, $2, $3) \
                   ON CONFLICT (series, slot) DO UPDATE SET total = slots.total + excluded.total";

struct Upsert {
    server: Throwaway,
    client: Option<Client>,
}

fn connect(server: &Throwaway) -> Result<Client, String> {
    Client::connect(&server.url("postgres"), NoTls).map_err(|error| error.to_string())
}

impl Store for Upsert {
    fn start(&mut self) -> Result<(), String> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.client = None;
            self.server.crash();
            self.server.resume().map_err(|error| error.to_string())?;
            self.client = Some(connect(&self.server)?);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.client = None;
        self.server.crash();
        Ok(())
    }

    fn process(&self) -> Option<u32> {
        let pid = std::fs::read_to_string(self.server.folder().join("data/postmaster.pid")).ok()?;
        pid.lines().next()?.parse().ok()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        let client = self.client.as_mut().ok_or("not connected")?;
        let slot_s = message.at_s().div_euclid(SLOT_S) * SLOT_S;
        let added = client.execute(ADD, &[&name(message.series), &slot_s, &message.count]);
        match added {
            Ok(_) => Ok(Reply::Acknowledged),
            Err(error) if error.as_db_error().is_some() && !client.is_closed() => {
                Ok(Reply::Refused(error.to_string()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.start()
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let client = self.client.as_mut().ok_or("not connected")?;
        let query = "SELECT slot, total FROM slots WHERE series = $1 AND slot >= $2 AND slot < $3";
        let rows = client.query(query, &[&name(series), &from_s, &to_s]);
        let rows = rows.map_err(|error| error.to_string())?;
        Ok(rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1) as f64)).collect())
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        Ok(self.slots(asked)?.values().sum())
    }
}
