//! A disk by the calls that changed it: what a process sees, and what a power cut may leave.
//!
//! A file's bytes are durable once a sync of the file that began after the write has ended, a name
//! once such a sync of its folder has. Until then each change may be there or not, whatever became
//! of the others; of a write, any part, with zeros for the rest or without. File systems promise
//! more: ext4 with `data=ordered` keeps changes of names in their order, and shows no length without
//! its bytes. What it may leave is among this.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base::Rng;
use rand::RngExt as _;

use super::trace::{Call, Event};

/// Length of a sector, the unit in which most disks write.
const SECTOR: usize = 512;

/// Which changes survive: one possibility after the other, or one that is drawn.
pub(super) enum Choices {
    /// The choices that were made, and from how many; the next one is that at `at`.
    Each { made: Vec<(usize, usize)>, at: usize },
    /// By a seed; of each file and folder the first changes, or any.
    Drawn { random: Box<Rng>, in_order: bool },
}

impl Choices {
    /// The first possibility: nothing survives.
    pub(super) fn first() -> Choices {
        Choices::Each { made: Vec::new(), at: 0 }
    }

    /// One that is drawn.
    pub(super) fn drawn(mut random: Rng) -> Choices {
        let in_order = random.random_bool(0.5);
        Choices::Drawn { random: Box::new(random), in_order }
    }

    /// Goes on to the next possibility; false after the last one.
    pub(super) fn advance(&mut self) -> bool {
        let Choices::Each { made, at } = self else { return true };
        *at = 0;
        while let Some((choice, count)) = made.pop() {
            if choice + 1 < count {
                made.push((choice + 1, count));
                return true;
            }
        }
        false
    }

    fn of(&mut self, count: usize) -> usize {
        match self {
            Choices::Drawn { random, .. } => random.random_range(0..count),
            Choices::Each { made, at } => {
                if *at == made.len() {
                    made.push((0, count));
                }
                *at += 1;
                made[*at - 1].0
            }
        }
    }

    /// Where a write is torn.
    fn cut(&mut self, length: usize) -> usize {
        match self {
            Choices::Each { .. } => length / 2,
            Choices::Drawn { random, .. } => {
                let cut = random.random_range(0..=length);
                if random.random_bool(0.5) { cut / SECTOR * SECTOR } else { cut }
            }
        }
    }
}

/// A change of some content.
trait Change: Clone {
    type Content: Clone + Default + std::fmt::Debug;

    fn apply(&self, content: &mut Self::Content);

    /// Applies what a power cut has left of it.
    fn survive(&self, choices: &mut Choices, content: &mut Self::Content);
}

#[derive(Clone, Debug)]
enum Data {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change for Data {
    type Content = Vec<u8>;

    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Data::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Data::Length(length) => content.resize(*length, 0),
        }
    }

    fn survive(&self, choices: &mut Choices, content: &mut Vec<u8>) {
        let Data::Write { offset, bytes } = self else {
            if choices.of(2) == 1 {
                self.apply(content);
            }
            return;
        };
        let (mut bytes, offset) = (bytes.clone(), *offset);
        match choices.of(6) {
            0 => return,
            1 => {}
            2 => bytes.fill(0),
            3 => bytes.truncate(choices.cut(bytes.len())),
            4 => {
                let cut = choices.cut(bytes.len());
                bytes[cut..].fill(0);
            }
            _ => {
                let cut = choices.cut(bytes.len());
                bytes[..cut].fill(0);
            }
        }
        Data::Write { offset, bytes }.apply(content);
    }
}

/// Names, and the numbers of their files or folders.
type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, usize),
    Gone(String),
    Move(String, String, usize),
}

impl Change for NameChange {
    type Content = Names;

    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Set(name, node) => _ = names.insert(name.clone(), *node),
            NameChange::Gone(name) => _ = names.remove(name),
            NameChange::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }

    fn survive(&self, choices: &mut Choices, names: &mut Names) {
        match self {
            // The file may have both names.
            NameChange::Move(_, to, node) => match choices.of(3) {
                0 => {}
                1 => self.apply(names),
                _ => _ = names.insert(to.clone(), *node),
            },
            _ if choices.of(2) == 1 => self.apply(names),
            _ => {}
        }
    }
}

/// Some content with its changes that are not durable, each with the line at which it had happened.
#[derive(Clone, Debug)]
struct Layers<C: Change> {
    seen: C::Content,
    durable: C::Content,
    pending: Vec<(usize, C)>,
}

impl<C: Change> Layers<C> {
    fn new() -> Layers<C> {
        let (seen, durable) = <(C::Content, C::Content)>::default();
        Layers { seen, durable, pending: Vec::new() }
    }

    fn change(&mut self, ended: usize, change: C) {
        change.apply(&mut self.seen);
        self.pending.push((ended, change));
    }

    fn sync(&mut self, begun: usize) {
        let durable = &mut self.durable;
        self.pending.retain(|(ended, change)| {
            let is_pending = *ended >= begun;
            if !is_pending {
                change.apply(durable);
            }
            is_pending
        });
    }

    fn survivors(&self, choices: &mut Choices) -> C::Content {
        let mut content = self.durable.clone();
        let mut pending = self.pending.iter().map(|(_, change)| change);
        if let Choices::Drawn { in_order: true, .. } = choices {
            let whole = choices.of(self.pending.len() + 1);
            pending.by_ref().take(whole).for_each(|change| change.apply(&mut content));
            pending.take(1).for_each(|change| change.survive(choices, &mut content));
        } else {
            pending.for_each(|change| change.survive(choices, &mut content));
        }
        content
    }
}

#[derive(Clone, Debug)]
enum Node {
    File(Layers<Data>),
    Folder(Layers<NameChange>),
}

/// The files of the proof, and their folders.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// The first one is the folder of the proof, whose own name is durable.
    nodes: Vec<Node>,
}

/// Folders and files, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Disk {
    /// A disk with this, all of it durable.
    pub(super) fn new(state: &State) -> Disk {
        let mut disk = Disk { nodes: vec![Node::Folder(Layers::new())] };
        let folders = state.folders.iter().map(|path| Call::CreateFolder(path.clone()));
        let files = state.files.iter().flat_map(|(path, bytes)| {
            let (path, bytes) = (path.clone(), bytes.clone());
            [Call::Create { path: path.clone(), empties: false }, Call::Append { path, bytes }]
        });
        for call in folders.chain(files) {
            // Folders come before what is in them.
            let _ = disk.apply(&Event { begun: 0, ended: 0, call });
        }
        for node in &mut disk.nodes {
            match node {
                Node::File(file) => file.sync(1),
                Node::Folder(folder) => folder.sync(1),
            }
        }
        disk
    }

    /// The process was killed: its calls are over, but not durable.
    pub(super) fn end_life(&mut self) {
        for node in &mut self.nodes {
            match node {
                Node::File(file) => file.pending.iter_mut().for_each(|(ended, _)| *ended = 0),
                Node::Folder(folder) => folder.pending.iter_mut().for_each(|(ended, _)| *ended = 0),
            }
        }
    }

    /// Carries out a call.
    ///
    /// # Errors
    /// A call that is not possible.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), String> {
        self.try_apply(event).ok_or_else(|| format!("this is not possible: {:?}", event.call))
    }

    fn try_apply(&mut self, Event { begun, ended, call }: &Event) -> Option<()> {
        match call {
            Call::Create { path, empties } => match self.file(path) {
                Some(file) if *empties => file.change(*ended, Data::Length(0)),
                Some(_) => {}
                None => self.add(path, *ended, Node::File(Layers::new()))?,
            },
            Call::CreateFolder(path) => self.add(path, *ended, Node::Folder(Layers::new()))?,
            Call::Rename { from, to } => {
                let node = self.find(from)?;
                let names = [from, to].map(|path| path.file_name()?.to_str().map(str::to_owned));
                let [Some(old), Some(new)] = names else { return None };
                self.folder_of(from)?.change(*ended, NameChange::Move(old, new, node));
            }
            Call::Remove(path) => {
                self.find(path)?;
                let name = path.file_name()?.to_str()?.to_owned();
                self.folder_of(path)?.change(*ended, NameChange::Gone(name));
            }
            // What is written to a file without a name is of no interest.
            Call::Append { path, bytes } => {
                if let Some(file) = self.file(path) {
                    let (offset, bytes) = (file.seen.len(), bytes.clone());
                    file.change(*ended, Data::Write { offset, bytes });
                }
            }
            Call::Write { path, offset, bytes } => {
                if let Some(file) = self.file(path) {
                    let (offset, bytes) = (*offset, bytes.clone());
                    file.change(*ended, Data::Write { offset, bytes });
                }
            }
            Call::Length { path, length } => {
                if let Some(file) = self.file(path) {
                    file.change(*ended, Data::Length(*length));
                }
            }
            Call::Sync(path) => match self.find(path).map(|node| &mut self.nodes[node]) {
                Some(Node::File(file)) => file.sync(*begun),
                Some(Node::Folder(folder)) => folder.sync(*begun),
                None => {}
            },
            Call::Accept(_) | Call::Receive(..) | Call::Answer(..) | Call::Close(_) => {}
        }
        Some(())
    }

    /// The number of the file or folder that has a path now.
    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(0, |node, name| match &self.nodes[node] {
            Node::Folder(folder) => folder.seen.get(name.to_str()?).copied(),
            Node::File(_) => None,
        })
    }

    fn file(&mut self, path: &Path) -> Option<&mut Layers<Data>> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    fn folder_of(&mut self, path: &Path) -> Option<&mut Layers<NameChange>> {
        let node = self.find(path.parent()?)?;
        match &mut self.nodes[node] {
            Node::Folder(folder) => Some(folder),
            Node::File(_) => None,
        }
    }

    fn add(&mut self, path: &Path, ended: usize, node: Node) -> Option<()> {
        let (number, name) = (self.nodes.len(), path.file_name()?.to_str()?.to_owned());
        self.folder_of(path)?.change(ended, NameChange::Set(name, number));
        self.nodes.push(node);
        Some(())
    }

    /// What processes see.
    pub(super) fn seen(&self) -> State {
        let mut state = State::default();
        self.walk(0, Path::new(""), &mut state, None);
        state
    }

    /// What a power cut may leave now.
    pub(super) fn after_cut(&self, choices: &mut Choices) -> State {
        let mut state = State::default();
        self.walk(0, Path::new(""), &mut state, Some(choices));
        state
    }

    fn walk(&self, node: usize, path: &Path, state: &mut State, mut choices: Option<&mut Choices>) {
        match &self.nodes[node] {
            Node::File(file) => {
                let content = match choices {
                    None => file.seen.clone(),
                    Some(choices) => file.content_after_cut(path, choices),
                };
                state.files.insert(path.to_owned(), content);
            }
            Node::Folder(folder) => {
                if node > 0 {
                    state.folders.insert(path.to_owned());
                }
                let names = match choices.as_deref_mut() {
                    None => folder.seen.clone(),
                    Some(choices) => folder.survivors(choices),
                };
                for (name, node) in names {
                    self.walk(node, &path.join(name), state, choices.as_deref_mut());
                }
            }
        }
    }
}

impl Layers<Data> {
    /// What SQLite has not synced is kept or lost file by file, or, if it is drawn, also write by
    /// write: a commit has too many writes for all possibilities.
    fn content_after_cut(&self, path: &Path, choices: &mut Choices) -> Vec<u8> {
        let is_sqlite = path.to_string_lossy().contains(".sqlite");
        if is_sqlite && !self.pending.is_empty() {
            let is_drawn = matches!(choices, Choices::Drawn { .. });
            match choices.of(if is_drawn { 3 } else { 2 }) {
                0 => return self.durable.clone(),
                1 => return self.seen.clone(),
                _ => {}
            }
        }
        self.survivors(choices)
    }
}

impl State {
    /// Makes it in a folder.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        self.folders.iter().try_for_each(|path| fs::create_dir(folder.join(path)))?;
        self.files.iter().try_for_each(|(path, bytes)| fs::write(folder.join(path), bytes))
    }

    /// The first file or folder that the other one has not, or has otherwise.
    pub(super) fn difference(&self, other: &State) -> Option<PathBuf> {
        let folders = self.folders.symmetric_difference(&other.folders);
        let files = self.files.keys().chain(other.files.keys());
        let files = files.filter(|path| self.files.get(*path) != other.files.get(*path));
        folders.chain(files).next().cloned()
    }

    /// What is in a folder, but for SQLite's shared memory.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn read(folder: &Path) -> io::Result<State> {
        let mut state = State::default();
        let mut left = vec![PathBuf::new()];
        while let Some(at) = left.pop() {
            for entry in fs::read_dir(folder.join(&at))? {
                let entry = entry?;
                let path = at.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    state.folders.insert(path.clone());
                    left.push(path);
                } else if !path.to_string_lossy().ends_with("-shm") {
                    state.files.insert(path, fs::read(entry.path())?);
                }
            }
        }
        Ok(state)
    }
}
