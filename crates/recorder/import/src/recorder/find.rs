//! Finding series in the store, or creating them.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, channel};

use formats::{Book, Malformed, Reason};
use series::{Kind, Lane, Spec};
use store::{NewSeries, NotMade, Series, SeriesLimit, Store, StoreError};

use super::{Known, Recorder};
use crate::BackfillError;
use crate::advance::Advance;

/// A series of a book, and how it is made if it does not exist.
pub(super) type Wanted = (formats::Series, NewSeries);

/// A series of a book, and whether it is to have RRDtool's semantics.
pub(super) type Asked = (formats::Series, bool);

/// What a store knows of series: the series themselves, their lanes, and RRDtool's states.
#[derive(Debug)]
pub(super) struct Found {
    made: Vec<Result<Series, NotMade>>,
    lanes: HashMap<i64, Lane>,
    rrds: HashMap<i64, Option<series::rrd::State>>,
}

fn is_of_points(spec: &Spec) -> bool {
    !matches!(spec.kind, Kind::Count | Kind::Level)
}

/// Finds or creates series, with everything that a head needs to know of them.
fn found(
    store: &mut dyn Store,
    wanted: &[NewSeries],
    limit: &SeriesLimit,
    lane: i32,
) -> Result<Found, StoreError> {
    let made = store.series(wanted, limit)?;
    let of_points = made.iter().flatten().filter(|series| is_of_points(&series.spec));
    let (ids, in_rrd_mode): (Vec<i64>, Vec<bool>) =
        of_points.map(|series| (series.id, series.rrd.is_some())).unzip();
    let lanes = match ids.is_empty() {
        true => Vec::new(),
        false => store.lane_states(&ids.iter().map(|id| (*id, lane)).collect::<Vec<_>>())?,
    };
    let mut rrds = HashMap::new();
    for (id, _) in ids.iter().zip(in_rrd_mode).filter(|(_, in_rrd_mode)| *in_rrd_mode) {
        rrds.insert(*id, store.rrd(*id)?.map(|rrd| rrd.state().clone()));
    }
    Ok(Found { made, lanes: ids.into_iter().zip(lanes).collect(), rrds })
}

impl Recorder<'_> {
    /// The series of a name, created like this if it does not exist.
    pub(crate) fn make(
        &mut self,
        number: formats::Series,
        wanted: NewSeries,
    ) -> Result<Result<Series, Reason>, BackfillError> {
        let asked = [(number, wanted.rrd.is_some())];
        let (limit, lane) = (self.options.series, self.lane);
        let found = self.store_thread.call(move |store| found(store, &[wanted], &limit, lane))?;
        let made = found.made.first().cloned().unwrap_or(Err(NotMade::TooMany)).map_err(reason);
        self.keep(&asked, found)?;
        Ok(made)
    }

    /// Finds or creates these series, all new ones at once.
    pub(crate) fn find(
        &mut self,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)>,
    ) -> Result<(), BackfillError> {
        let wanted = self.wanted(book, touched)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let (asked, wanted) = split(wanted);
        let (limit, lane) = (self.options.series, self.lane);
        let found = self.store_thread.call(move |store| found(store, &wanted, &limit, lane))?;
        self.keep(&asked, found)
    }

    /// The same without waiting: the answer goes to [`Recorder::keep`].
    pub(super) fn ask(
        &self,
        wanted: Vec<Wanted>,
    ) -> (Vec<Asked>, Receiver<Result<Found, StoreError>>) {
        let (asked, wanted) = split(wanted);
        let (limit, lane) = (self.options.series, self.lane);
        let (reply, answer) = channel();
        self.store_thread.start(move |store| {
            // If the stream has ended, the receiver is gone.
            let _ = reply.send(found(store, &wanted, &limit, lane));
        });
        (asked, answer)
    }

    /// Those of these series that are new.
    pub(super) fn wanted(
        &self,
        book: &Book,
        touched: impl Iterator<Item = (formats::Series, Kind)>,
    ) -> Result<Vec<Wanted>, BackfillError> {
        let mut new: BTreeMap<formats::Series, NewSeries> = BTreeMap::new();
        for (series, kind) in touched {
            if let Known::New = self.known(series) {
                new.entry(series).or_insert_with(|| self.options.wanted(book.name(series), kind));
            }
        }
        if self.options.rrd.is_some()
            && let Some(wanted) = new.values().find(|wanted| wanted.rrd.is_none())
        {
            let series = Box::new(wanted.identity.clone());
            return Err(BackfillError::Interval { series });
        }
        Ok(new.into_iter().collect())
    }

    /// Adds series to the head.
    pub(super) fn keep(&mut self, asked: &[Asked], found: Found) -> Result<(), BackfillError> {
        let Found { made, lanes, mut rrds } = found;
        if made.contains(&Err(NotMade::NoRetention)) {
            return Err(StoreError::NoRetention(self.options.step.us()).into());
        }
        for ((number, in_rrd_mode), made) in asked.iter().zip(made) {
            let made = match made.map_err(reason) {
                Ok(series) if series.rrd.is_some() != *in_rrd_mode && self.refuses_mode => {
                    Err(Malformed::OtherMode.into())
                }
                Ok(series) if series.rrd.is_some() != *in_rrd_mode => {
                    return Err(BackfillError::OtherMode {
                        series: Box::new(series.identity.clone()),
                        exists_in_rrd_mode: series.rrd.is_some(),
                    });
                }
                made => made,
            };
            let known = match made {
                Err(reason) => Known::Refused(reason),
                Ok(series) => {
                    let none = Lane::default();
                    let lane = lanes.get(&series.id).unwrap_or(&none);
                    let place = self.head.open(series.id, &series.spec, lane);
                    if let (Some(definition), Some(state)) = (series.rrd, rrds.remove(&series.id)) {
                        self.rrds.entry(place).or_insert_with(|| Advance::new(definition, state));
                    }
                    Known::At(place)
                }
            };
            let at = number.0 as usize;
            if self.known.len() <= at {
                self.known.resize(at + 1, Known::New);
            }
            self.known[at] = known;
        }
        Ok(())
    }
}

/// The series apart from how they are made.
fn split(wanted: Vec<Wanted>) -> (Vec<Asked>, Vec<NewSeries>) {
    let asked = |(number, wanted): Wanted| ((number, wanted.rrd.is_some()), wanted);
    wanted.into_iter().map(asked).unzip()
}

/// The reason for which a store refused to create a series, as that of a line.
fn reason(not_made: NotMade) -> Reason {
    match not_made {
        NotMade::TooMany | NotMade::NoRetention => Malformed::TooManySeries,
        NotMade::TooLong => Malformed::NameTooLong,
        NotMade::Name => Malformed::EmptyName,
    }
    .into()
}
