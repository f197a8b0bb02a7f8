//! A folder as a table of Delta Lake: an export is one commit, so readers see all of it or nothing,
//! and can still read what the table was before.
//!
//! The files are those of an ordinary export, in a folder of the table that its readers ignore. In the
//! table, every version of such a file is a file of its own (a hard link), because files of a table
//! never change there. Reader version 1 and writer version 2 of the protocol:
//! <https://github.com/delta-io/delta/blob/master/PROTOCOL.md>.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ExportError;
use crate::place::{ExportFolder, in_folder, sync_names};
use crate::table::{
    COLUMNS, Column, DELTA_LOG, FILE_PREFIX, FILE_SUFFIX, PARTITION_COLUMNS, Partition, folders,
    names, partitions,
};

/// The folder with the files as they are now.
pub(crate) const CURRENT: &str = "_tachograph";

/// How long replaced files can still be read; Delta Lake's own default.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The versions of the protocol that are written; a table with greater ones is not continued.
const READER_VERSION: u32 = 1;
const WRITER_VERSION: u32 = 2;

/// How often something is tried again because another recorder came first.
const ATTEMPTS_MAX: u32 = 1_000;

/// A line of a commit, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    add: Option<AddedFile>,
    remove: Option<RemovedFile>,
    txn: Option<Transaction>,
    meta_data: Option<Metadata>,
    protocol: Option<Protocol>,
}

#[derive(Debug, Deserialize)]
struct AddedFile {
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemovedFile {
    path: String,
    deletion_timestamp: Option<u64>,
}

/// Whose commit it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transaction {
    app_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    schema_string: String,
    partition_columns: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Protocol {
    min_reader_version: u32,
    min_writer_version: u32,
}

/// A table, and one recorder's files in it.
struct DeltaTable<'t> {
    folder: &'t Path,
    recorder: &'t str,
    /// The version of the next commit.
    next: u64,
    /// Paths in the table.
    active: BTreeSet<String>,
    /// When they were removed, in milliseconds since the epoch.
    removed: BTreeMap<String, u64>,
}

/// A file that the table should have.
struct CurrentFile {
    /// Its path in the table, which no other content ever has.
    path: String,
    partition: Partition,
    source: PathBuf,
    bytes: u64,
    modified: Duration,
}

/// Makes the table what its current files are, by at most one commit. The version of the table; `None`
/// if there is no table yet, because there are no files.
///
/// # Errors
/// [`ExportError::NotContinued`] if another program has changed what only the recorder may change;
/// [`ExportError::File`].
pub(crate) fn commit(folder: &Path, recorder: &str) -> Result<Option<u64>, ExportError> {
    let (active, removed) = (BTreeSet::new(), BTreeMap::new());
    let mut table = DeltaTable { folder, recorder, next: 0, active, removed };
    table.read()?;
    let wanted = table.current()?;
    let names: BTreeSet<&str> = wanted.iter().map(|file| file.path.as_str()).collect();
    let old: Vec<String> =
        table.active.iter().filter(|path| !names.contains(path.as_str())).cloned().collect();
    let new: Vec<&CurrentFile> =
        wanted.iter().filter(|file| !table.active.contains(&file.path)).collect();
    if !old.is_empty() || !new.is_empty() {
        // Before the files, which would be taken for a plain export if this is stopped now.
        let log = folder.join(DELTA_LOG);
        fs::create_dir_all(&log).map_err(ExportError::file("create", &log))?;
        new.iter().try_for_each(|file| table.link(file))?;
        let now = now();
        let mut actions = removals(&old, now);
        for file in &new {
            actions.push(file.addition()?);
        }
        table.append(&actions, now)?;
        table.removed.extend(old.into_iter().map(|path| (path, now.as_millis() as u64)));
    }
    table.active = wanted.into_iter().map(|file| file.path).collect();
    table.remove_expired(now()).map_err(ExportError::file("read", folder))?;
    Ok(table.next.checked_sub(1))
}

impl DeltaTable<'_> {
    /// Reads the commits that are new.
    fn read(&mut self) -> Result<(), ExportError> {
        loop {
            let path = self.commit_path(self.next);
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(ExportError::file("read", &path)(error)),
            };
            self.replay(&text)?;
            self.next += 1;
        }
        if self.next == 0 && is_log(&self.folder.join(DELTA_LOG)) {
            return Err(self.not_continued("its first commits are gone"));
        }
        Ok(())
    }

    fn replay(&mut self, text: &str) -> Result<(), ExportError> {
        let actions: Result<Vec<Action>, _> = text.lines().map(serde_json::from_str).collect();
        let actions = actions.map_err(|error| self.not_continued(&error.to_string()))?;
        let own = |action: &Action| {
            action.txn.as_ref().is_some_and(|transaction| transaction.app_id == self.recorder)
        };
        let is_own = actions.iter().any(own);
        for Action { add, remove, meta_data, protocol, .. } in actions {
            let foreign = if let Some(Protocol { min_reader_version, min_writer_version }) =
                protocol
                && (min_reader_version > READER_VERSION || min_writer_version > WRITER_VERSION)
            {
                Some("its protocol was raised")
            } else if meta_data.is_some_and(|of| !of.is_ours()) {
                Some("it has other columns")
            } else if let Some(RemovedFile { path, .. }) = &remove
                && !is_own
                && self.is_own(path)
            {
                Some("another program has replaced files of this recorder")
            } else {
                None
            };
            if let Some(cause) = foreign {
                return Err(self.not_continued(cause));
            }
            if let Some(AddedFile { path }) = add
                && self.is_own(&path)
            {
                self.removed.remove(&path);
                self.active.insert(path);
            }
            if let Some(RemovedFile { path, deletion_timestamp }) = remove
                && self.is_own(&path)
            {
                self.active.remove(&path);
                self.removed.insert(path, deletion_timestamp.unwrap_or(0));
            }
        }
        Ok(())
    }

    /// How the names of the recorder's files begin.
    fn prefix(&self) -> String {
        format!("{FILE_PREFIX}{}-", self.recorder)
    }

    fn is_own(&self, path: &str) -> bool {
        path.rsplit('/').next().is_some_and(|name| name.starts_with(&self.prefix()))
    }

    fn commit_path(&self, version: u64) -> PathBuf {
        self.folder.join(DELTA_LOG).join(format!("{version:020}.json"))
    }

    fn not_continued(&self, cause: &str) -> ExportError {
        let (folder, version) = (self.folder.to_owned(), self.next);
        ExportError::NotContinued { folder, version, cause: cause.to_owned() }
    }

    /// The recorder's files as they are now.
    fn current(&self) -> Result<Vec<CurrentFile>, ExportError> {
        let current = self.folder.join(CURRENT);
        let unreadable = |error| ExportError::file("read", &current)(error);
        let mut found = Vec::new();
        for partition in partitions(&current).map_err(unreadable)? {
            let files = ExportFolder::new(&current, self.recorder);
            let source = files.partition(&partition.step, &partition.day).file;
            let about = match source.metadata() {
                Ok(about) => about,
                // Only other recorders have files there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(ExportError::file("read", &source)(error)),
            };
            let modified = about.modified().map_err(ExportError::file("read", &source))?;
            let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
            let bytes = about.len();
            let path = format!(
                "step={}/day={}/{}{:x}-{bytes:x}{FILE_SUFFIX}",
                partition.step,
                partition.day,
                self.prefix(),
                modified.as_nanos()
            );
            found.push(CurrentFile { path, partition, source, bytes, modified });
        }
        Ok(found)
    }

    /// Gives a file its name in the table, on disk before any commit has it.
    fn link(&self, file: &CurrentFile) -> Result<(), ExportError> {
        let path = self.folder.join(&file.path);
        let folder = path.parent().unwrap_or(self.folder);
        in_folder(folder, "link", &path, || match fs::hard_link(&file.source, &path) {
            // By an export that was stopped before its commit.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        })?;
        sync_names(folder)
    }

    /// Adds a commit after all others, in the folder for them.
    fn append(&mut self, actions: &[Value], now: Duration) -> Result<(), ExportError> {
        let log = self.folder.join(DELTA_LOG);
        for _ in 0..ATTEMPTS_MAX {
            let mut all = self.about(now).to_vec();
            if self.next == 0 {
                all.extend(creation(self.recorder, now));
            }
            let text: String =
                all.iter().chain(actions).map(|action| format!("{action}\n")).collect();
            if self.put(&log, &text)? {
                self.next += 1;
                return sync_names(&log);
            }
            // Another recorder was first.
            self.read()?;
        }
        Err(self.not_continued("other recorders commit all the time"))
    }

    /// Who commits, for people and for programs.
    fn about(&self, now: Duration) -> [Value; 2] {
        let millis = now.as_millis() as u64;
        let information = json!({
            "timestamp": millis,
            "operation": "WRITE",
            "operationParameters": { "mode": "Append", "partitionBy": r#"["step","day"]"# },
            "engineInfo": concat!("tachograph/", env!("CARGO_PKG_VERSION")),
        });
        let transaction =
            json!({ "appId": self.recorder, "version": self.next, "lastUpdated": millis });
        [json!({ "commitInfo": information }), json!({ "txn": transaction })]
    }

    /// Writes the next commit, unless there is one of this version.
    fn put(&self, log: &Path, text: &str) -> Result<bool, ExportError> {
        let path = self.commit_path(self.next);
        let part = log.join(format!(".{}.part", self.recorder));
        let written = File::create(&part)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(ExportError::file("write", &part))?;
        let placed = fs::hard_link(&part, &path);
        fs::remove_file(&part).map_err(ExportError::file("remove", &part))?;
        match placed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(ExportError::file("write", &path)(error)),
        }
    }

    /// Removes files of the recorder that were replaced long ago, and those that never were in a commit.
    fn remove_expired(&self, now: Duration) -> io::Result<()> {
        let prefix = self.prefix();
        for (step, of_step) in folders(self.folder, "step=")? {
            for (day, of_day) in folders(&of_step, "day=")? {
                for file in names(&of_day)? {
                    let Some(name) = file.to_str().filter(|name| name.starts_with(&prefix)) else {
                        continue;
                    };
                    let path = format!("step={step}/day={day}/{name}");
                    let until = self.removed.get(&path).map(|at| Duration::from_millis(*at) + KEPT);
                    if !self.active.contains(&path) && until.is_none_or(|until| until < now) {
                        fs::remove_file(of_day.join(name))?;
                    }
                }
                // Empty if all was retracted.
                let _ = fs::remove_dir(&of_day);
            }
        }
        Ok(())
    }
}

impl CurrentFile {
    fn addition(&self) -> Result<Value, ExportError> {
        let file = File::open(&self.source).map_err(ExportError::file("read", &self.source))?;
        let foreign = |error: parquet::errors::ParquetError| ExportError::Foreign {
            path: self.source.clone(),
            cause: error.to_string(),
        };
        let reader = SerializedFileReader::new(file).map_err(foreign)?;
        let rows = reader.metadata().file_metadata().num_rows();
        Ok(json!({ "add": {
            "path": self.path,
            "partitionValues": { "step": self.partition.step, "day": self.partition.day },
            "size": self.bytes,
            "modificationTime": self.modified.as_millis() as u64,
            "dataChange": true,
            "stats": json!({ "numRecords": rows }).to_string(),
        } }))
    }
}

impl Metadata {
    fn is_ours(&self) -> bool {
        let ours = PARTITION_COLUMNS.map(|column| column.name);
        serde_json::from_str::<Value>(&self.schema_string).is_ok_and(|found| {
            let names = |schema: &Value| -> Vec<(Value, Value)> {
                let fields = schema["fields"].as_array().into_iter().flatten();
                fields.map(|field| (field["name"].clone(), field["type"].clone())).collect()
            };
            names(&found) == names(&schema()) && self.partition_columns == ours
        })
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whether a folder has commits or checkpoints.
fn is_log(log: &Path) -> bool {
    let entries = fs::read_dir(log).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
}

fn removals(paths: &[String], now: Duration) -> Vec<Value> {
    let removal = |path| {
        let millis = now.as_millis() as u64;
        json!({ "remove": { "path": path, "deletionTimestamp": millis, "dataChange": true } })
    };
    paths.iter().map(removal).collect()
}

/// What the first commit of a table says about it. Its commits are kept, because recorders continue
/// from them.
fn creation(id: &str, now: Duration) -> [Value; 2] {
    let versions =
        json!({ "minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION });
    let metadata = json!({
        "id": id,
        "format": { "provider": "parquet", "options": {} },
        "schemaString": schema().to_string(),
        "partitionColumns": PARTITION_COLUMNS.map(|column| column.name),
        "configuration": { "delta.logRetentionDuration": "interval 36500 days" },
        "createdTime": now.as_millis() as u64,
    });
    [json!({ "protocol": versions }), json!({ "metaData": metadata })]
}

/// The columns in Delta Lake's words.
fn schema() -> Value {
    let field = |column: &Column| {
        let kind = match column.hive {
            "bigint" => json!("long"),
            "map<string,string>" => json!({
                "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": false,
            }),
            other => json!(other),
        };
        json!({
            "name": column.name, "type": kind, "nullable": true,
            "metadata": { "comment": column.meaning },
        })
    };
    let fields: Vec<Value> = COLUMNS.iter().chain(&PARTITION_COLUMNS).map(field).collect();
    json!({ "type": "struct", "fields": fields })
}
