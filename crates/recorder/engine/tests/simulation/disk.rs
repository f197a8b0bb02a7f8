//! A simulated disk: what was not synced may vanish, be torn, or survive in part.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;

use engine::Disk;

use super::counters::counters;
use super::random::Random;

/// What a disk does wrong on purpose: a fault in the engine that the laws must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omission {
    /// A file's content is not synced.
    Sync,
    /// The header of a new file is not synced before the file is renamed.
    SyncHeader,
    /// The folder is not synced after a rename.
    SyncFolder,
    /// A file is not cut after a failed write.
    Truncate,
    /// A file is cut, and the cut is not synced.
    SyncTruncate,
    /// Of a write that does not fit, an error is not reported.
    FullUnnoticed,
    /// An error of a sync is not reported.
    ErrorUnnoticed,
}

impl Omission {
    pub(crate) const ALL: [Omission; 7] = [
        Omission::Sync,
        Omission::SyncHeader,
        Omission::SyncFolder,
        Omission::Truncate,
        Omission::SyncTruncate,
        Omission::FullUnnoticed,
        Omission::ErrorUnnoticed,
    ];
}

counters! {
    Injected {
        full: "full",
        read_only: "read-only",
        read_errors: "read errors",
        write_errors: "write errors",
        sync_errors: "sync errors",
        kills: "kills",
        power_cuts: "power cuts",
        torn: "torn writes",
        lost_names: "lost names",
    }
}

/// The condition of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Condition {
    /// Bytes that fit; `None` means any number.
    pub(crate) capacity: Option<usize>,
    pub(crate) read_only: bool,
    /// One call in so many fails, 0 for none.
    pub(crate) error_each: u64,
}

/// A change that is not durable.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A file: what a process sees, and what is durable.
#[derive(Clone, Debug, Default)]
struct Node {
    seen: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

impl Node {
    fn apply(durable: &mut Vec<u8>, change: Change) {
        match change {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if durable.len() < end {
                    durable.resize(end, 0);
                }
                durable[offset..end].copy_from_slice(&bytes);
            }
            Change::Length(length) => durable.resize(length, 0),
        }
    }
}

/// A change of names that is not durable.
#[derive(Clone, Debug)]
enum Naming {
    Set(String, usize),
    Gone(String),
    Move(String, String, usize),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Naming::Set(name, node) => _ = names.insert(name.clone(), *node),
            Naming::Gone(name) => _ = names.remove(name),
            Naming::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    random: Random,
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    namings: Vec<Naming>,
    condition: Condition,
    omission: Option<Omission>,
    /// Calls until the process is killed.
    calls_left: Option<u64>,
    dead: bool,
    injected: Injected,
}

/// A disk that is shared by the processes that use it one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Rc<RefCell<Inner>>);

impl SimulatedDisk {
    pub(crate) fn new(random: Random, omission: Option<Omission>) -> SimulatedDisk {
        SimulatedDisk(Rc::new(RefCell::new(Inner { random, omission, ..Inner::default() })))
    }

    /// From now on its accidents come from these random numbers.
    pub(crate) fn reseed(&self, random: Random) {
        self.0.borrow_mut().random = random;
    }

    pub(crate) fn set(&self, condition: Condition) {
        self.0.borrow_mut().condition = condition;
    }

    /// Kills the process after so many more calls.
    pub(crate) fn kill_after(&self, calls: u64) {
        self.0.borrow_mut().calls_left = Some(calls);
    }

    /// Whether the process has been killed: it does not learn the results of its calls any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.borrow().dead
    }

    pub(crate) fn injected(&self) -> Injected {
        self.0.borrow().injected.clone()
    }

    pub(crate) fn used(&self) -> usize {
        let inner = self.0.borrow();
        inner.names.values().map(|node| inner.nodes[*node].seen.len()).sum()
    }

    /// Ends the process; with a power cut, what is not durable may be lost.
    pub(crate) fn restart(&self, power_cut: bool) {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        (inner.dead, inner.calls_left) = (false, None);
        if !power_cut {
            inner.injected.kills += 1;
            return;
        }
        inner.injected.power_cuts += 1;
        for node in &mut inner.nodes {
            let changes = std::mem::take(&mut node.changes);
            let random = &mut inner.random;
            // File systems write back in order, or in any order.
            let in_order = random.one_in(2);
            let kept = random.below(changes.len() as u64 + 1) as usize;
            for (number, change) in changes.into_iter().enumerate() {
                let is_kept = if in_order { number < kept } else { random.one_in(2) };
                let is_torn = if in_order { number == kept } else { random.one_in(4) };
                match change {
                    Change::Write { offset, mut bytes } if is_torn && !bytes.is_empty() => {
                        inner.injected.torn += 1;
                        let cut = random.below(bytes.len() as u64) as usize;
                        // The length may be that of the whole write.
                        if random.one_in(2) {
                            bytes[cut..].fill(0);
                        } else {
                            bytes.truncate(cut);
                        }
                        Node::apply(&mut node.durable, Change::Write { offset, bytes });
                    }
                    change if is_kept => Node::apply(&mut node.durable, change),
                    _ => {}
                }
            }
            node.seen = node.durable.clone();
        }
        let namings = std::mem::take(&mut inner.namings);
        let kept = inner.random.below(namings.len() as u64 + 1) as usize;
        inner.injected.lost_names += (namings.len() - kept) as u64;
        namings[..kept].iter().for_each(|naming| naming.apply(&mut inner.durable_names));
        inner.names = inner.durable_names.clone();
    }
}

impl Inner {
    /// Whether a call happens: not after a kill.
    fn call(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.calls_left {
            self.dead |= *left == 0;
            *left = left.saturating_sub(1);
        }
        if self.dead { Err(io::Error::other("killed")) } else { Ok(()) }
    }

    fn fails(&mut self) -> bool {
        self.condition.error_each > 0 && self.random.one_in(self.condition.error_each)
    }

    fn change(&mut self) -> io::Result<()> {
        self.call()?;
        if self.condition.read_only {
            self.injected.read_only += 1;
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        if self.fails() {
            self.injected.write_errors += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    fn node(&mut self, name: &str) -> io::Result<&mut Node> {
        let node = *self.names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(&mut self.nodes[node])
    }
}

const EIO: i32 = 5;

impl Disk for SimulatedDisk {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("disk").join(name)
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut inner = self.0.borrow_mut();
        inner.call()?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        let mut inner = self.0.borrow_mut();
        inner.call()?;
        Ok(inner.node(name)?.seen.len() as u64)
    }

    fn read(&mut self, name: &str, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        inner.call()?;
        if inner.fails() {
            inner.injected.read_errors += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let seen = &inner.node(name)?.seen;
        let rest = seen.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(to.len());
        to[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        let node = inner.nodes.len();
        inner.nodes.push(Node::default());
        inner.names.insert(name.to_owned(), node);
        inner.namings.push(Naming::Set(name.to_owned(), node));
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let used = self.used();
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        let room = inner.condition.capacity.map_or(bytes.len(), |max| max.saturating_sub(used));
        let written = bytes.len().min(room);
        let node = inner.node(name)?;
        let offset = node.seen.len();
        node.seen.extend(&bytes[..written]);
        node.changes.push(Change::Write { offset, bytes: bytes[..written].to_vec() });
        if written < bytes.len() {
            inner.injected.full += 1;
            if inner.omission != Some(Omission::FullUnnoticed) {
                return Err(ErrorKind::StorageFull.into());
            }
        }
        Ok(())
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        if inner.omission == Some(Omission::Truncate) {
            return Ok(());
        }
        let node = inner.node(name)?;
        node.seen.truncate(length as usize);
        node.changes.push(Change::Length(length as usize));
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        let omission = inner.omission;
        let fails = inner.fails();
        inner.injected.sync_errors += u64::from(fails);
        let kept = inner.random.below(4);
        let node = inner.node(name)?;
        let is_cut = matches!(node.changes.last(), Some(Change::Length(_)));
        let is_left_out = match omission {
            Some(Omission::Sync) => !is_cut && name != "next",
            Some(Omission::SyncHeader) => name == "next",
            Some(Omission::SyncTruncate) => is_cut,
            _ => false,
        };
        if is_left_out {
            return Ok(());
        }
        let changes = std::mem::take(&mut node.changes);
        if fails {
            // As in Linux: pages that could not be written count as written from then on, and can
            // be read. Lengths are metadata, which no failed sync forgets.
            for (number, change) in (0..).zip(changes) {
                match change {
                    change if number < kept => Node::apply(&mut node.durable, change),
                    Change::Length(_) => node.changes.push(change),
                    Change::Write { .. } => {}
                }
            }
            return match omission {
                Some(Omission::ErrorUnnoticed) => Ok(()),
                _ => Err(io::Error::from_raw_os_error(EIO)),
            };
        }
        changes.into_iter().for_each(|change| Node::apply(&mut node.durable, change));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        let node = *inner.names.get(from).ok_or(ErrorKind::NotFound)?;
        inner.names.remove(from);
        inner.names.insert(to.to_owned(), node);
        inner.namings.push(Naming::Move(from.to_owned(), to.to_owned(), node));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        inner.names.remove(name).ok_or(ErrorKind::NotFound)?;
        inner.namings.push(Naming::Gone(name.to_owned()));
        Ok(())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        let mut inner = self.0.borrow_mut();
        inner.change()?;
        if inner.fails() {
            inner.injected.sync_errors += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if inner.omission == Some(Omission::SyncFolder) {
            return Ok(());
        }
        let inner = &mut *inner;
        for naming in std::mem::take(&mut inner.namings) {
            naming.apply(&mut inner.durable_names);
        }
        Ok(())
    }
}
