//! Streams of lines, in pieces.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;

use ingest::text::Reader;
use ingest::{Arrival, FileError, Line, Malformed, Reason};
use slots::Store;

use crate::recorder::{Placed, Recorder};
use crate::{BackfillError, Fingerprint, Options, Refused, Summary, Watch};

/// How many lines the pieces of each level have. Each divides the one before it.
const SIZES: [usize; 5] = [10_000, 1_000, 100, 10, 1];

/// A block ends after this many bytes, however few its lines.
const BLOCK_BYTES: usize = 8 << 20;

/// A stream of lines that is to be imported.
#[derive(Debug)]
pub struct Lines<R> {
    /// The stream, unpacked.
    pub input: R,
    /// What reads its lines.
    pub reader: Reader,
    /// When it arrives.
    pub arrival: Arrival,
    /// Everything that decides what its lines mean: the format, its options, names. It
    /// is a part of the fingerprint, so it must stay the same over versions.
    pub meaning: String,
}

/// Imports a stream of lines.
///
/// # Errors
/// [`BackfillError`]. What was written stays, and the same import goes on from there.
pub fn import<R: BufRead>(
    store: &mut dyn Store,
    lines: Lines<R>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Summary, BackfillError> {
    let meaning = format!("{}\nlane {}", lines.meaning, options.lane);
    let mut import = Import {
        recorder: Recorder::new(store, options.clone(), lines.arrival.now_us)?,
        reader: lines.reader,
        arrival: lines.arrival,
        watch,
        summary: Summary::default(),
        after_known: false,
    };
    let mut stream = ingest::Lines::new(lines.input);
    let mut at = Fingerprint::new(&meaning);
    let mut block = Block::default();
    loop {
        let ended = !block.fill(&mut stream)?;
        at = import.piece(&block, 0..block.lines.len(), 0, !ended, at)?;
        import.summary.series = import.reader.book().len();
        import.watch.progress(&import.summary);
        if import.summary.stopped {
            return Ok(import.summary);
        }
        if ended {
            import.end(&at)?;
            return Ok(import.summary);
        }
    }
}

/// Lines that are held until their piece is written.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    lines: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    number: u64,
    bytes: Range<usize>,
    too_long: bool,
    first: bool,
    last: bool,
}

impl Block {
    /// Reads the next block; false if the stream ended before the block was full.
    fn fill<R: BufRead>(&mut self, stream: &mut ingest::Lines<R>) -> Result<bool, FileError> {
        self.bytes.clear();
        self.lines.clear();
        while self.lines.len() < SIZES[0] && self.bytes.len() < BLOCK_BYTES {
            let Some(line) = stream.next()? else { return Ok(false) };
            let start = self.bytes.len();
            self.bytes.extend_from_slice(line.bytes);
            let Line { number, too_long, first, last, .. } = line;
            let bytes = start..self.bytes.len();
            self.lines.push(Held { number, bytes, too_long, first, last });
        }
        Ok(true)
    }

    fn line(&self, place: usize) -> Line<'_> {
        let Held { number, ref bytes, too_long, first, last } = self.lines[place];
        Line { number, bytes: &self.bytes[bytes.clone()], too_long, first, last }
    }
}

struct Import<'s, 'w> {
    recorder: Recorder<'s>,
    reader: Reader,
    arrival: Arrival,
    watch: &'w mut dyn Watch,
    summary: Summary,
    /// Whether the piece before was in the store already.
    after_known: bool,
}

impl Import<'_, '_> {
    /// Imports a piece of a block, unless it is known. `whole` says that it does not
    /// end where it does only because the stream does.
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
                self.pass(block, places)?;
                return Ok(end);
            }
            if !self.is_begun(block, &places, level + 1, &start)? {
                if self.watch.stop() {
                    self.summary.stopped = true;
                    return Ok(start);
                }
                self.leave_known(&start)?;
                self.write(block, places, writer)?;
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

    /// Reads lines that the store has, because gauges and windows go on from them.
    fn pass(&mut self, block: &Block, places: Range<usize>) -> Result<(), BackfillError> {
        for place in places {
            let line = block.line(place);
            self.reader.line(line, self.arrival)?;
            self.summary.lines += u64::from(line.first);
            self.summary.known += u64::from(line.first);
        }
        self.after_known = true;
        Ok(())
    }

    /// Before the first new piece: if the stream had ended here, what was held back
    /// was written then, and is not again.
    fn leave_known(&mut self, at: &Fingerprint) -> Result<(), BackfillError> {
        if std::mem::take(&mut self.after_known) && self.recorder.has(at.writer(END))? {
            self.reader.flush(self.arrival);
        }
        Ok(())
    }

    fn write(
        &mut self,
        block: &Block,
        places: Range<usize>,
        writer: slots::Writer,
    ) -> Result<(), BackfillError> {
        let mut updates = Vec::new();
        let mut refused: BTreeMap<usize, Vec<Reason>> = BTreeMap::new();
        for place in places {
            let line = block.line(place);
            self.summary.lines += u64::from(line.first);
            if line.too_long {
                // All of it is kept aside; the reason stands with its first part.
                let reason = line.first.then_some(Malformed::LineTooLong.into());
                refused.insert(place, reason.into_iter().collect());
                continue;
            }
            let parsed = self.reader.line(line, self.arrival)?;
            let blank = line.bytes.trim_ascii().is_empty();
            self.summary.comments += u64::from(parsed.comment || blank);
            if !parsed.reasons.is_empty() {
                refused.insert(place, parsed.reasons.clone());
            }
            let placed = parsed.updates.iter().map(|(series, update)| Placed {
                place,
                series: *series,
                update: *update,
                step: None,
            });
            updates.extend(placed);
        }
        self.apply(Some(block), writer, &updates, refused)
    }

    /// At the end of the stream: what was held back.
    fn end(&mut self, at: &Fingerprint) -> Result<(), BackfillError> {
        let writer = at.writer(END);
        let parsed = self.reader.flush(self.arrival).clone();
        if parsed.updates.is_empty() && parsed.reasons.is_empty() || self.recorder.has(writer)? {
            return Ok(());
        }
        let placed = |(series, update)| Placed { place: 0, series, update, step: None };
        let updates: Vec<_> = parsed.updates.into_iter().map(placed).collect();
        self.apply(None, writer, &updates, BTreeMap::from([(0, parsed.reasons)]))?;
        self.watch.progress(&self.summary);
        Ok(())
    }

    /// Writes updates; lines of `block` that are refused are kept aside before that.
    fn apply(
        &mut self,
        block: Option<&Block>,
        writer: slots::Writer,
        updates: &[Placed],
        refused: BTreeMap<usize, Vec<Reason>>,
    ) -> Result<(), BackfillError> {
        let (watch, summary) = (&mut *self.watch, &mut self.summary);
        let mut first = Some(refused);
        let mut aside: std::collections::BTreeSet<usize> = Default::default();
        let refuse = |more: &[(usize, Reason)]| -> Result<(), BackfillError> {
            let mut refused = first.take().unwrap_or_default();
            for (place, reason) in more {
                refused.entry(*place).or_default().push(*reason);
            }
            for (place, reasons) in refused {
                reasons.iter().for_each(|reason| summary.refused.add(*reason));
                let line = block.map(|block| block.line(place));
                if !aside.insert(place) {
                    continue;
                }
                summary.refused_lines += u64::from(line.is_some_and(|line| line.first));
                if let Some(line) = line {
                    let refused = Refused { line, reasons: &reasons };
                    watch.refused(refused).map_err(BackfillError::Aside)?;
                }
            }
            watch.settle().map_err(BackfillError::Aside)
        };
        let written = self.recorder.write(writer, self.reader.book(), updates, refuse)?;
        self.summary.updates += written.updates;
        self.summary.expired += written.expired;
        if let Some((from_us, to_us)) = written.span_us {
            self.summary.widen(from_us, to_us);
        }
        Ok(())
    }
}

/// What names the piece that ends a stream.
const END: &str = "end";

fn name(lines: usize) -> String {
    format!("{lines} lines")
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
