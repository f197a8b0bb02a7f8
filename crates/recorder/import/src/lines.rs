//! Import of line-based streams, in pieces.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;

use engine::PlacedUpdate;
use formats::text::{Reader, WindowResult};
use formats::{Arrival, Book, FileError, Line, Malformed, Reason, Update, UpdateContent};
use series::{Refusal, SECOND_US};
use store::{Fingerprint, Store};

use crate::recorder::Recorder;
use crate::{BackfillError, Options, RefusedLine, Summary, Watch};

/// Lines per piece, by level. Each divides the previous one.
const SIZES: [usize; 5] = [10_000, 1_000, 100, 10, 1];

/// A block ends after this many bytes, however few its lines.
const BLOCK_BYTES: usize = 8 << 20;

/// A stream of lines to import.
#[derive(Debug)]
pub struct LineStream<R> {
    /// The stream, unpacked.
    pub input: R,
    /// Its parser.
    pub reader: Reader,
    /// Its arrival time.
    pub arrival: Arrival,
    /// Everything that affects the meaning of its lines: the format, its options, names. It is a
    /// part of the fingerprint, so it must stay the same over versions.
    pub meaning: String,
}

/// Imports a stream of lines.
///
/// A line is accepted or refused as a whole. A last line without its end may still grow, so it is
/// left for the next import, unless [`Options::whole`] says that it is complete.
///
/// # Errors
/// [`BackfillError`]. What was written stays, and the same import continues from there.
pub fn import<R: BufRead>(
    store: &mut dyn Store,
    lines: LineStream<R>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Summary, BackfillError> {
    let now_us = lines.arrival.now_us;
    Recorder::run(store, options.clone(), now_us, |recorder| {
        Import::run(recorder, lines, options, watch)
    })
}

/// Lines that are kept until their piece is written.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    lines: Vec<HeldLine>,
    /// The number of a last line that may still grow and is not empty.
    torn: Option<u64>,
}

#[derive(Debug)]
struct HeldLine {
    number: u64,
    bytes: Range<usize>,
    too_long: bool,
    first: bool,
    last: bool,
}

impl Block {
    /// Reads the next block; false if the stream ended before the block was full.
    fn fill<R: BufRead>(&mut self, stream: &mut formats::Lines<R>) -> Result<bool, FileError> {
        self.bytes.clear();
        self.lines.clear();
        while self.lines.len() < SIZES[0] && self.bytes.len() < BLOCK_BYTES {
            let Some(line) = stream.next()? else { return Ok(false) };
            if line.torn {
                self.torn = (!line.bytes.trim_ascii().is_empty()).then_some(line.number);
                return Ok(false);
            }
            let start = self.bytes.len();
            self.bytes.extend_from_slice(line.bytes);
            let Line { number, too_long, first, last, .. } = line;
            let bytes = start..self.bytes.len();
            self.lines.push(HeldLine { number, bytes, too_long, first, last });
        }
        Ok(true)
    }

    fn line(&self, place: usize) -> Line<'_> {
        let HeldLine { number, ref bytes, too_long, first, last } = self.lines[place];
        Line { number, bytes: &self.bytes[bytes.clone()], too_long, first, last, torn: false }
    }
}

struct Import<'r, 's, 'w> {
    recorder: &'r mut Recorder<'s>,
    reader: Reader,
    arrival: Arrival,
    watch: &'w mut dyn Watch,
    summary: Summary,
}

/// The content of a piece, line by line.
#[derive(Debug, Default)]
struct PieceContent {
    updates: Vec<PlacedUpdate>,
    refused: BTreeMap<usize, Vec<Reason>>,
    /// The results of windows, whose updates are placed after the block's lines.
    windows: Vec<WindowResult>,
    /// Comments and empty lines.
    comments: u64,
    /// Skipped texts.
    texts: u64,
}

impl PieceContent {
    fn update(&mut self, place: usize, (series, update): (formats::Series, Update)) {
        self.updates.push(PlacedUpdate::new(place, series, update));
    }

    /// Adds the result of a window, with its own position after `lines`.
    fn window(&mut self, lines: usize, windowed: WindowResult) {
        let place = lines + self.windows.len();
        self.windows.push(windowed);
        self.updates.extend(PlacedUpdate::windowed(place, &windowed));
    }
}

impl Import<'_, '_, '_> {
    fn run<R: BufRead>(
        recorder: &mut Recorder<'_>,
        lines: LineStream<R>,
        options: &Options,
        watch: &mut dyn Watch,
    ) -> Result<Summary, BackfillError> {
        let meaning = format!("{}\nlane {}", lines.meaning, options.lane);
        let mut stream = formats::Lines::quoted(lines.input, lines.reader.quotes(), options.whole);
        let mut import = Import {
            recorder,
            reader: lines.reader,
            arrival: lines.arrival,
            watch,
            summary: Summary::default(),
        };
        let mut at = Fingerprint::new(&meaning);
        let mut block = Block::default();
        loop {
            let ended = !block.fill(&mut stream)?;
            at = import.piece(&block, 0..block.lines.len(), 0, !ended, at)?;
            import.summary.series = import.reader.book().len();
            import.summary.torn = block.torn;
            import.watch.progress(&import.summary);
            if import.summary.stopped || ended {
                if !import.summary.stopped {
                    import.end(&at)?;
                }
                import.watch.writing();
                import.summary.unstored += import.recorder.finish()?;
                return Ok(import.summary);
            }
        }
    }

    /// Imports a piece of a block, unless it is known. `whole` means that it would not be longer if
    /// the stream continued.
    fn piece(
        &mut self,
        block: &Block,
        places: Range<usize>,
        level: usize,
        whole: bool,
        start: Fingerprint,
    ) -> Result<Fingerprint, BackfillError> {
        if places.is_empty() || self.summary.stopped {
            return Ok(start);
        }
        if whole || places.len() == SIZES[level] {
            let end = after(block, places.clone(), &start);
            let writer = end.writer(&name(places.len()));
            if self.recorder.has(writer)? {
                self.pass(block, places, &start, &end)?;
                return Ok(end);
            }
            if !self.is_begun(block, &places, level + 1, &start)? {
                if self.watch.stop() {
                    self.summary.stopped = true;
                    return Ok(start);
                }
                self.write(block, places, &start, &end)?;
                return Ok(end);
            }
        }
        let size = SIZES[level + 1];
        let mut at = start;
        for from in places.clone().step_by(size) {
            let to = (from + size).min(places.end);
            at = self.piece(block, from..to, level + 1, whole, at)?;
        }
        Ok(at)
    }

    /// Whether the first part of a piece is known, at this level or below.
    fn is_begun(
        &mut self,
        block: &Block,
        places: &Range<usize>,
        level: usize,
        start: &Fingerprint,
    ) -> Result<bool, BackfillError> {
        for size in SIZES.iter().skip(level).copied().filter(|size| *size < places.len()) {
            let first = places.start..places.start + size;
            let writer = after(block, first, start).writer(&name(size));
            if self.recorder.has(writer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads lines that the store has, because gauges and windows depend on them.
    fn pass(
        &mut self,
        block: &Block,
        places: Range<usize>,
        start: &Fingerprint,
        end: &Fingerprint,
    ) -> Result<(), BackfillError> {
        for place in places.clone() {
            let first = u64::from(block.line(place).first);
            self.summary.lines += first;
            self.summary.known += first;
        }
        self.read(block, places, start, end, true)?;
        // If the stream had ended here, its open windows were emitted as they are.
        if self.reader.remembers() && self.recorder.has(end.writer(END))? {
            self.reader.flush();
        }
        Ok(())
    }

    fn write(
        &mut self,
        block: &Block,
        places: Range<usize>,
        start: &Fingerprint,
        end: &Fingerprint,
    ) -> Result<(), BackfillError> {
        let writer = end.writer(&name(places.len()));
        let said = self.read(block, places.clone(), start, end, false)?;
        self.summary.lines +=
            places.clone().filter(|place| block.line(*place).first).count() as u64;
        self.summary.comments += said.comments;
        self.summary.texts += said.texts;
        for (place, reasons) in &said.refused {
            keep(self.watch, &mut self.summary, block.line(*place), reasons)?;
        }
        if !said.refused.is_empty() {
            self.watch.settle().map_err(BackfillError::KeepRefused)?;
        }
        let mut writers = vec![writer];
        self.mark(block, &places, start, end, &said, &mut writers);
        self.apply(Some(block), &writers, said)
    }

    /// Reads lines and applies their held values. For lines that are `known`, only the latter.
    fn read(
        &mut self,
        block: &Block,
        places: Range<usize>,
        start: &Fingerprint,
        end: &Fingerprint,
        known: bool,
    ) -> Result<PieceContent, BackfillError> {
        // Most lines have one update.
        let updates = Vec::with_capacity(if known { 0 } else { places.len() });
        let mut said = PieceContent { updates, ..PieceContent::default() };
        let mut held = Vec::new();
        for place in places.clone() {
            let line = block.line(place);
            if line.too_long {
                // The whole line is stored; the reason is given with its first piece.
                let reason = line.first.then_some(Malformed::LineTooLong.into());
                said.refused.insert(place, reason.into_iter().collect());
                continue;
            }
            let parsed = self.reader.read(line, self.arrival)?;
            if !parsed.held.is_empty() {
                held.push((place, parsed.held.clone()));
            }
            if known {
                continue;
            }
            let blank = line.bytes.trim_ascii().is_empty();
            said.comments += u64::from(parsed.comment || blank);
            said.texts += parsed.texts;
            if !parsed.reasons.is_empty() {
                said.refused.insert(place, parsed.reasons.clone());
            }
            parsed.updates.iter().for_each(|update| said.update(place, *update));
        }
        self.take(block, places, held, start, end, &mut said)?;
        Ok(said)
    }

    /// Applies the held values of lines, each line as a whole or not at all.
    fn take(
        &mut self,
        block: &Block,
        places: Range<usize>,
        held: Vec<(usize, Vec<formats::text::HeldValue>)>,
        start: &Fingerprint,
        end: &Fingerprint,
        said: &mut PieceContent,
    ) -> Result<(), BackfillError> {
        if held.is_empty() {
            return Ok(());
        }
        let touched = held.iter().flat_map(|(_, held)| held).flat_map(|held| held.series());
        self.recorder.find(self.reader.book(), touched)?;
        let marked = self.recorder.has(end.writer(REFUSED))?;
        for (place, held) in held {
            if marked && self.recorder.has(mark_of(block, places.start, place, start))? {
                // The line was refused and stored before, and would count twice once it is
                // corrected.
                continue;
            }
            let mut touched = held.iter().flat_map(|held| held.series());
            let refused =
                touched.find_map(|(series, kind)| self.recorder.takes(series, kind).err());
            if let Some(reason) = refused {
                said.refused.insert(place, vec![reason]);
                continue;
            }
            let parsed = self.reader.take(&held);
            if !parsed.reasons.is_empty() {
                said.refused.insert(place, parsed.reasons.clone());
            }
            parsed.updates.iter().for_each(|update| said.update(place, *update));
            parsed.windows.iter().for_each(|windowed| said.window(block.lines.len(), *windowed));
        }
        Ok(())
    }

    /// Names the lines of a piece that were refused for reasons that may change when the piece is
    /// read again: the clock, or the existing series. Windows depend on which lines were accepted.
    /// The names are claimed with the piece, so they exist if it does.
    fn mark(
        &self,
        block: &Block,
        places: &Range<usize>,
        start: &Fingerprint,
        end: &Fingerprint,
        said: &PieceContent,
        writers: &mut Vec<store::Writer>,
    ) {
        if !self.reader.remembers() {
            return;
        }
        let changes = |reason: &Reason| match reason {
            Reason::Refused(refusal) => {
                matches!(refusal, Refusal::Future | Refusal::Past | Refusal::WrongKind)
            }
            Reason::Malformed(malformed) => {
                matches!(malformed, Malformed::TooManySeries | Malformed::NameTooLong)
            }
        };
        let refused = said.refused.iter().filter(|(_, reasons)| reasons.iter().any(changes));
        let mut refused = refused.map(|(place, _)| *place).peekable();
        if refused.peek().is_some() {
            writers.push(end.writer(REFUSED));
        }
        writers.extend(refused.map(|place| mark_of(block, places.start, place, start)));
    }

    /// At the end of the stream: what is still held.
    fn end(&mut self, at: &Fingerprint) -> Result<(), BackfillError> {
        let writer = at.writer(END);
        if !self.reader.remembers() || self.recorder.has(writer)? {
            return Ok(());
        }
        let mut said = PieceContent::default();
        self.reader.flush().windows.iter().for_each(|windowed| said.window(0, *windowed));
        if said.updates.is_empty() {
            return Ok(());
        }
        self.apply(None, &[writer], said)?;
        self.watch.progress(&self.summary);
        Ok(())
    }

    /// Writes updates; refused lines of `block` are stored before that.
    fn apply(
        &mut self,
        block: Option<&Block>,
        writers: &[store::Writer],
        said: PieceContent,
    ) -> Result<(), BackfillError> {
        let (watch, summary) = (&mut *self.watch, &mut self.summary);
        let lines = block.map_or(0, |block| block.lines.len());
        let number = summary.lines;
        let book = self.reader.book();
        let refuse = |more: &[(usize, Reason)]| -> Result<(), BackfillError> {
            for (place, reason) in more {
                match block.filter(|_| *place < lines) {
                    Some(block) => keep(watch, summary, block.line(*place), &[*reason])?,
                    None => {
                        let Some(windowed) = said.windows.get(place - lines) else { continue };
                        let text = shown(book, windowed);
                        let (bytes, first, last) = (text.as_bytes(), true, true);
                        let line =
                            Line { number, bytes, too_long: false, first, last, torn: false };
                        keep(watch, summary, line, &[*reason])?;
                    }
                }
            }
            if more.is_empty() {
                Ok(())
            } else {
                watch.settle().map_err(BackfillError::KeepRefused)
            }
        };
        let written = self.recorder.write(writers, book, &said.updates, refuse)?;
        self.summary.add(&written);
        Ok(())
    }
}

/// Names the piece at the end of a stream.
const END: &str = "end";

/// Names a piece with refused lines that might be accepted when read again, and each of these
/// lines.
const REFUSED: &str = "refused";

fn name(lines: usize) -> String {
    format!("{lines} lines")
}

/// The name of a refused line.
fn mark_of(block: &Block, from: usize, place: usize, start: &Fingerprint) -> store::Writer {
    after(block, from..place + 1, start).writer("refused line")
}

/// Counts and stores a refused line.
fn keep(
    watch: &mut dyn Watch,
    summary: &mut Summary,
    line: Line<'_>,
    reasons: &[Reason],
) -> Result<(), BackfillError> {
    reasons.iter().for_each(|reason| summary.refused.add(*reason));
    summary.refused_lines += u64::from(line.first);
    watch.refused(RefusedLine { line, reasons }).map_err(BackfillError::KeepRefused)
}

/// The result of a window, as a line that gives the same counts when imported; a comment if there
/// is no such line.
fn shown(book: &Book, windowed: &WindowResult) -> String {
    let name = book.name(windowed.series);
    let amount = |update: Option<Update>| match update?.what {
        UpdateContent::Interval(interval) => Some(interval.cover()),
        UpdateContent::Point(_) => None,
    };
    let Some(cover) = amount(windowed.update) else { return format!("# {name}") };
    let before = amount(windowed.instead).map_or(0.0, |cover| cover.amount.as_f64());
    let at_s = cover.span.start_us() as f64 / SECOND_US as f64;
    let plain = |text: &str| !text.contains([',', '|', ':', ';', ' ', '#']);
    let tags = name.tags();
    let is_count = name.field() == "count"
        && plain(name.measurement())
        && tags.iter().all(|(key, value)| plain(key) && plain(value));
    if !is_count {
        return format!("# {name} was {} from {at_s}", cover.amount.as_f64());
    }
    let more = cover.amount.as_f64() - before;
    let tags: Vec<String> = tags.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    let tags = if tags.is_empty() { String::new() } else { format!("|#{}", tags.join(",")) };
    format!("{at_s} {}:{more}|c{tags}", name.measurement())
}

/// The fingerprint after these lines.
fn after(block: &Block, places: Range<usize>, start: &Fingerprint) -> Fingerprint {
    let mut end = start.clone();
    for place in places {
        let line = block.line(place);
        end.add(line.bytes);
        if line.last {
            end.add(b"\n");
        }
    }
    end
}
