//! Loads in short slices, in simulated time: whether the throughput of a continued loop and the latency
//! of an open one, as `tachograph compare` computes them from slices, are those of the long run
//! (docs/method.md, "Servers that are sometimes slow").
//!
//! The rules are those of the crates `drive` (continued.rs) and `conduct` (pace.rs, schedule.rs),
//! written a second time. Two variants take turns, of which this simulates one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{Rng, Seed};
use rand::RngExt as _;

use crate::behaviour::{Behaviour, Pace};
use crate::model::Model;
use crate::simulate::{OpenSlice, SimulatedValue, UnderWay};

/// Shortest slice, and shortest lead-in.
const SLICE_MIN_S: f64 = 0.025;
const LEAD_IN_MIN_S: f64 = 0.005;
/// The same in mean service times.
const SLICE_SERVICE_TIMES: f64 = 10.0;
const LEAD_IN_SERVICE_TIMES: f64 = 4.0;
/// Longest lead-in, as a share of its slice.
const LEAD_IN_SHARE_MAX: f64 = 0.5;
/// Length of a slice in mean waits for its last requests.
const DRAINS: f64 = 8.0;
/// Length of a slice in mean stops around the ends of slices, if these are no shorter than the least.
const STOPS: f64 = 3.0;
const STOP_MIN_S: f64 = 0.2;
/// How much longer or shorter than the mean a slice may be.
const JITTER: f64 = 0.4;
/// Shortest slice of an open loop, and its length in latencies at the quantile below, of which the
/// first is the lead-in.
const OPEN_SLICE_MIN_S: f64 = 0.1;
const LATENCIES: f64 = 3.0;
const LATENCY_QUANTILE: f64 = 0.995;
/// Shortest lead-in of an open loop, as a share of its slice.
const LEAD_IN_SHARE: f64 = 0.2;
/// Shortest window of a block.
const WINDOW_S: f64 = 1.5;
/// Shortest warm-up.
const WARM_UP_S: f64 = 0.3;
/// Time between slices.
const BETWEEN_S: f64 = 0.002;

/// Answers per second of a closed loop, over all slices of so many blocks, each of which starts a
/// process, if there is no time for slices of more than `longest_s`; and how many times as long as the
/// mean time for which no request ended around their ends the slices were.
pub fn throughput_per_s(
    behaviour: &Behaviour,
    connections: u32,
    longest_s: f64,
    blocks: u64,
    seed: Seed,
) -> (SimulatedValue, f64) {
    let load = ClosedLoad::settled(behaviour, connections, longest_s, blocks.div_ceil(10), seed);
    let all = load.run(behaviour, blocks, seed);
    let completed = sum(&all, |block| block.completed);
    let counted_s = sum(&all, |block| block.counted_s);
    let rate = completed / counted_s;
    let squares: f64 = all.iter().map(|b| (b.completed - rate * b.counted_s).powi(2)).sum();
    let value = rate * f64::from(connections);
    let stops = load.slice_s / stopped_s(&all);
    (SimulatedValue { value, error: value * squares.sqrt() / completed }, stops)
}

fn sum(all: &[Block], of: fn(&Block) -> f64) -> f64 {
    all.iter().map(of).sum()
}

/// The mean time for which no request ended around the ends of slices.
fn stopped_s(all: &[Block]) -> f64 {
    sum(all, |block| block.stopped_s) / sum(all, |block| block.stopped_slices)
}

/// A closed loop, and the slices that it gets.
struct ClosedLoad {
    connections: u32,
    /// Mean service time.
    mean_s: f64,
    slice_s: f64,
    /// Mean time that slices wait for their last requests.
    drain_s: f64,
}

impl ClosedLoad {
    /// As after a calibration: the slices' length follows from so many blocks of shorter ones.
    fn settled(
        behaviour: &Behaviour,
        connections: u32,
        longest_s: f64,
        blocks: u64,
        seed: Seed,
    ) -> ClosedLoad {
        let mean_s = f64::from(connections) / behaviour.throughput_per_s(connections);
        let slice_s = SLICE_MIN_S.max(SLICE_SERVICE_TIMES * mean_s).min(longest_s);
        let load = ClosedLoad { connections, mean_s, slice_s, drain_s: slice_s / DRAINS };
        let pilot = load.run(behaviour, blocks, seed);
        let drain_s = sum(&pilot, |block| block.drained_s) / sum(&pilot, |block| block.slices);
        let stop_s = Some(stopped_s(&pilot)).filter(|stop_s| *stop_s >= STOP_MIN_S);
        let wanted_s = slice_s.max(DRAINS * drain_s).max(STOPS * stop_s.unwrap_or(0.0));
        ClosedLoad { slice_s: wanted_s.min(longest_s), drain_s, ..load }
    }

    fn run(&self, behaviour: &Behaviour, blocks: u64, seed: Seed) -> Vec<Block> {
        (0..blocks).map(|block| Block::run(behaviour, self, seed, block)).collect()
    }
}

/// A quantile of the latency of an open loop, in seconds, over all slices of so many blocks.
pub fn latency_s(
    behaviour: &Behaviour,
    connections: u32,
    rate_per_s: f64,
    quantile: f64,
    blocks: u64,
    seed: Seed,
) -> f64 {
    let blocks = open_blocks(behaviour, connections, rate_per_s, WINDOW_S, blocks, seed);
    quantile_of(&mut latencies_s(&blocks.concat()), quantile)
}

/// When the requests of an open loop ended, and their latencies, in each slice of each block, whose
/// windows add up to `window_s` or two slices.
fn open_blocks(
    behaviour: &Behaviour,
    connections: u32,
    rate_per_s: f64,
    window_s: f64,
    blocks: u64,
    seed: Seed,
) -> Vec<Slices> {
    // Blocks that turn out to have too short slices lengthen those of later blocks.
    let mut long_s = 0.0;
    let mut all_s = Vec::new();
    for block in 0..blocks {
        let seed = seed.derive("block", block);
        let mut rng = seed.rng("slices");
        let mut model = Model::new(behaviour.clone(), seed);
        let factors: Vec<f64> = (0..connections).map(|_| model.accept()).collect();
        let slice_s = OPEN_SLICE_MIN_S.max(LATENCIES * long_s);
        let lead_s = long_s.min(slice_s / 3.0).max(LEAD_IN_SHARE * slice_s);
        let (mut left_s, mut now_s) = (window_s.max(2.0 * slice_s), warm_up_s(behaviour));
        let mut slices_s = Vec::new();
        while left_s > 0.0 {
            let length_s = slice_s * rng.random_range(1.0 - JITTER..1.0 + JITTER);
            let lead_end_s = now_s + lead_s.min(LEAD_IN_SHARE_MAX * length_s);
            let slice = OpenSlice { start_s: now_s, lead_end_s, end_s: now_s + length_s };
            let seen = slice.run(&mut model, &factors, rate_per_s, &mut rng);
            slices_s.push(seen.ended_s);
            left_s -= length_s;
            now_s = seen.last_s + BETWEEN_S + others_s(1, slice_s, &mut rng);
        }
        long_s = long_s.max(quantile_of(&mut latencies_s(&slices_s), LATENCY_QUANTILE));
        all_s.push(slices_s);
    }
    all_s
}

/// When requests ended, and what they took, slice by slice.
type Slices = Vec<Vec<(f64, f64)>>;

fn latencies_s(slices: &Slices) -> Vec<f64> {
    slices.iter().flatten().map(|(_, latency_s)| *latency_s).collect()
}

fn quantile_of(values: &mut [f64], quantile: f64) -> f64 {
    let rank = (quantile * (values.len().max(1) - 1) as f64) as usize;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(rank, f64::total_cmp).1 }
}

/// What a block has counted.
#[derive(Default)]
struct Block {
    completed: f64,
    /// Sum over the connections.
    counted_s: f64,
    drained_s: f64,
    slices: f64,
    /// For how long no request ended around the ends of slices, together, without those in which all
    /// connections only waited.
    stopped_s: f64,
    stopped_slices: f64,
    /// When the requests ended that counted, and what they took, slice by slice.
    ended_s: Slices,
}

/// A connection between slices.
#[derive(Clone, Copy, Default)]
struct Connection {
    factor: f64,
    /// For how long its next slice begins with its last request, and whether that has completed.
    carry_s: f64,
    carried: bool,
    /// From when on its time counts in this slice.
    from_s: Option<f64>,
}

/// A slice's limits in real time.
#[derive(Clone, Copy)]
struct Slice {
    start_s: f64,
    lead_end_s: f64,
    end_s: f64,
}

impl Slice {
    fn overlap(&self, from_s: f64, to_s: f64) -> f64 {
        (to_s.min(self.end_s) - from_s.max(self.lead_end_s)).max(0.0)
    }
}

impl Block {
    fn run(behaviour: &Behaviour, load: &ClosedLoad, seed: Seed, number: u64) -> Block {
        let ClosedLoad { connections, mean_s, slice_s, drain_s: spread_s } = *load;
        let seed = seed.derive("block", number);
        let mut rng = seed.rng("slices");
        let mut model = Model::new(behaviour.clone(), seed);
        let mut all: Vec<Connection> = (0..connections)
            .map(|_| Connection {
                factor: model.accept(),
                carry_s: rng.random::<f64>() * spread_s,
                ..Connection::default()
            })
            .collect();
        let mut block = Block::default();
        let mut now_s = 0.0;
        let warm_up_s = warm_up_s(behaviour);
        let mut left_s = 2.0 * slice_s.max(WINDOW_S / 2.0);
        let mut is_second = rng.random_bool(0.5);
        let mut mirrored_s = None;
        while left_s > 0.0 {
            let is_warm_up = now_s < warm_up_s;
            // Two rounds, the second in mirrored order, have slices of the same length.
            let length_s = mirrored_s.take().unwrap_or_else(|| {
                let length_s = slice_s * rng.random_range(1.0 - JITTER..1.0 + JITTER);
                mirrored_s = Some(length_s);
                length_s
            });
            let lead_s = LEAD_IN_MIN_S.max(LEAD_IN_SERVICE_TIMES * mean_s);
            let lead_s = lead_s.min(LEAD_IN_SHARE_MAX * length_s);
            let (start_s, lead_end_s) = (now_s, now_s + lead_s);
            let slice = Slice { start_s, lead_end_s, end_s: now_s + length_s };
            let mut ignored = Block::default();
            let counted = if is_warm_up { &mut ignored } else { &mut block };
            now_s = counted.slice(&slice, &mut model, &mut all);
            if !is_warm_up {
                left_s -= length_s;
            }
            // Each round loads both variants in random order.
            let was_second = std::mem::replace(&mut is_second, rng.random_bool(0.5));
            let others = 1 + u32::from(is_second) - u32::from(was_second);
            now_s += BETWEEN_S + others_s(others, slice_s, &mut rng);
        }
        block
    }

    /// Loads one slice; returns when it has drained.
    fn slice(&mut self, slice: &Slice, model: &mut Model, all: &mut [Connection]) -> f64 {
        let mut starting: Vec<(f64, usize)> = Vec::new();
        for (index, connection) in all.iter_mut().enumerate() {
            let resume_s = slice.start_s + std::mem::take(&mut connection.carry_s);
            self.counted_s += slice.overlap(slice.start_s, resume_s);
            if resume_s >= slice.end_s {
                connection.carry_s = resume_s - slice.end_s;
                continue;
            }
            let carried = std::mem::take(&mut connection.carried);
            self.completed += f64::from(u8::from(carried && resume_s >= slice.lead_end_s));
            starting.push((resume_s, index));
        }
        let last_s = if starting.is_empty() {
            slice.start_s
        } else {
            self.exchange(slice, model, all, starting)
        };
        for connection in all.iter_mut() {
            if let Some(from_s) = connection.from_s.take() {
                self.counted_s += slice.overlap(from_s, slice.end_s);
            }
        }
        let shortest_s = all.iter().map(|one| one.carry_s).fold(f64::INFINITY, f64::min);
        let together_s = (shortest_s - (slice.lead_end_s - slice.start_s)).max(0.0);
        for connection in all.iter_mut() {
            connection.carry_s -= together_s;
            self.counted_s += together_s;
        }
        self.slices += 1.0;
        self.drained_s += (last_s - slice.end_s).max(0.0);
        last_s
    }

    /// Sends and answers requests until the last one after the slice's end; returns when that was.
    fn exchange(
        &mut self,
        slice: &Slice,
        model: &mut Model,
        all: &mut [Connection],
        mut starting: Vec<(f64, usize)>,
    ) -> f64 {
        starting.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut ended_s = Vec::new();
        let mut under_way: BinaryHeap<Reverse<UnderWay>> = BinaryHeap::new();
        let (mut last_s, mut last_before_s, mut first_after_s) = (slice.end_s, slice.start_s, None);
        loop {
            let next = under_way.peek().map(|Reverse(request)| *request);
            let done_s = next.map_or(f64::INFINITY, |request| model.real_at(request.due_work_s));
            if let Some((at_s, index)) = starting.pop_if(|(at_s, _)| *at_s <= done_s) {
                let due_work_s = {
                    let at_work_s = model.work_at(at_s);
                    model.receive(at_work_s, all[index].factor).due_work_s
                };
                under_way.push(Reverse(UnderWay { due_work_s, connection: index, since_s: at_s }));
                continue;
            }
            let Some(Reverse(request)) = under_way.pop() else {
                self.stopped_s += first_after_s.map_or(0.0, |at_s: f64| at_s - last_before_s);
                self.stopped_slices += f64::from(u8::from(first_after_s.is_some()));
                self.ended_s.push(ended_s);
                return last_s;
            };
            model.answer(request.due_work_s);
            last_s = last_s.max(done_s);
            if done_s < slice.end_s {
                last_before_s = last_before_s.max(done_s);
            } else if first_after_s.is_none() {
                first_after_s = Some(done_s);
            }
            let connection = &mut all[request.connection];
            if connection.from_s.is_some() && request.since_s >= slice.lead_end_s {
                ended_s.push((done_s, done_s - request.since_s));
            }
            match connection.from_s {
                None => connection.from_s = Some(done_s.max(slice.lead_end_s)),
                Some(_) if done_s < slice.lead_end_s => {}
                Some(_) if done_s <= slice.end_s => self.completed += 1.0,
                Some(_) => {
                    connection.carry_s = done_s - slice.end_s;
                    connection.carried = true;
                }
            }
            if done_s < slice.end_s {
                let due_work_s = model.receive(request.due_work_s, connection.factor).due_work_s;
                under_way.push(Reverse(UnderWay { due_work_s, since_s: done_s, ..request }));
            }
        }
    }
}

/// As the calibration would find it.
fn warm_up_s(behaviour: &Behaviour) -> f64 {
    let slow_s = behaviour.slow.as_ref().map_or(0.0, |slow| slow.length_s);
    let slow_start_s = match behaviour.pace {
        Pace::SlowStart { length_s, .. } => 1.5 * length_s,
        _ => 0.0,
    };
    WARM_UP_S.max(slow_s).max(slow_start_s)
}

/// Slices of the other variant.
fn others_s(number: u32, slice_s: f64, rng: &mut Rng) -> f64 {
    (0..number).map(|_| slice_s * rng.random_range(1.0 - JITTER..1.0 + JITTER) + BETWEEN_S).sum()
}

#[cfg(test)]
mod tests {
    use stats::Estimate;

    use super::*;
    use crate::behaviour::{SlowRequests, SlowSelection, StopTime};
    use crate::{Kind, Subject, simulate};

    /// Share by which slices are off, and twice its error.
    fn off(behaviour: &Behaviour, blocks: u64) -> (f64, f64) {
        let truth = behaviour.throughput_per_s(Subject::CONNECTIONS);
        let of = Subject::CONNECTIONS;
        let (seen, _) = throughput_per_s(behaviour, of, f64::INFINITY, blocks, Seed(1));
        (seen.value / truth - 1.0, 2.0 * seen.error / truth)
    }

    #[test]
    fn slices_of_an_even_server_were_three_percent_too_fast() {
        for fast_s in [0.000_5, 0.002, 0.003_4, 0.005, 0.010, 0.060] {
            let (off, error) = off(&Behaviour::even(fast_s), 1_000);
            assert!(off.abs() < 0.001 + error, "{fast_s} s: {off} ± {error}");
        }
    }

    #[test]
    fn phases_were_ten_percent_too_fast() {
        for (fast_s, factor) in [(0.003_36, 2.8), (0.004_55, 2.6), (0.013, 3.0)] {
            let pace = Pace::Phases { length_s: 1.0, factor };
            let (off, error) = off(&Behaviour { pace, ..Behaviour::even(fast_s) }, 1_000);
            assert!(off.abs() < 0.02 + error, "{fast_s} s: {off} ± {error}");
        }
    }

    #[test]
    fn stops_that_are_longer_than_slices_are_met_as_often_as_they_are() {
        for (when, length_s) in [
            (StopTime::Fixed(1.0), 0.2),
            (StopTime::Fixed(3.0), 1.0),
            (StopTime::Fixed(0.315), 0.409),
            (StopTime::Fixed(0.5), 0.02),
            (StopTime::Exponential(2.0), 1.0),
            (StopTime::Exponential(0.383), 0.009_8),
            (StopTime::Requests(400), 0.06),
        ] {
            let behaviour = Behaviour::with_stops(0.003, when.clone(), length_s);
            let (off, error) = off(&behaviour, 1_000);
            assert!(off.abs() < 0.025 + error, "{when:?}, {length_s} s: {off} ± {error}");
        }
    }

    /// Why slices of less than three times that length forbid the verdict (`conduct`'s stops.rs).
    #[test]
    fn slices_that_are_cut_short_must_be_three_times_as_long_as_the_stops_around_their_ends() {
        let of = Subject::CONNECTIONS;
        let mut worst_if_shorter: f64 = 0.0;
        for (fast_s, requests, stop_s) in [
            (0.004, 181, 0.7),
            (0.008, 181, 0.7),
            (0.006, 100, 0.5),
            (0.005, 400, 0.3),
            (0.005, 1_000, 0.9),
            (0.010, 60, 0.2),
            (0.00732, 89, 0.704),
            (0.00732, 120, 0.704),
            (0.00732, 60, 0.704),
            (0.00732, 40, 0.3),
            (0.002, 100, 0.3),
        ] {
            let behaviour = Behaviour::with_stops(fast_s, StopTime::Requests(requests), stop_s);
            for longest_s in [0.25, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8] {
                let (seen, stops) = throughput_per_s(&behaviour, of, longest_s, 200, Seed(1));
                let off = (seen.value / behaviour.throughput_per_s(of) - 1.0).abs();
                if stops < STOPS {
                    worst_if_shorter = worst_if_shorter.max(off);
                    continue;
                }
                let error = 2.0 * seen.error / seen.value;
                assert!(off < 0.04 + error, "{off} ± {error} in {longest_s} s of {behaviour:?}");
            }
        }
        assert!(worst_if_shorter > 0.5, "{worst_if_shorter}");
    }

    /// Phases are the exception: a queue that grows for a second is longer than slices allow.
    #[test]
    fn a_percentile_was_that_of_queues_that_begin_empty() {
        for (behaviour, most) in [
            (Behaviour::with_stops(0.005_7, StopTime::Exponential(1.276), 0.521), 0.06),
            (Behaviour::with_stops(0.014, StopTime::Exponential(0.798), 0.268), 0.06),
            (Behaviour::with_stops(0.005, StopTime::Fixed(2.7), 0.3), 0.02),
            (Behaviour::with_stops(0.005, StopTime::Requests(1_968), 0.66), 0.02),
            (Kind::Lock.draw(Seed(50)).behaviour, 0.06),
            (Kind::Phases.draw(Seed(50)).behaviour, 0.15),
        ] {
            let rate_per_s = 0.5 * behaviour.throughput_per_s(Subject::CONNECTIONS);
            let of = Subject::CONNECTIONS;
            let [truth] = simulate::latency_s(&behaviour, of, rate_per_s, [0.99], Seed(1));
            let seen = latency_s(&behaviour, of, rate_per_s, 0.99, 600, Seed(2));
            let off = seen / truth.value - 1.0;
            let error = 3.0 * truth.error / truth.value;
            assert!(off.abs() < most + error, "{off} ± {error} of {truth:?} {behaviour:?}");
        }
    }

    /// Requests completed in the windows of 1,000 slices of `slice_s`, per request due in them, and the
    /// same with those that are outstanding at the ends because slices begin with none (`conduct`'s
    /// sustained.rs).
    fn achieved(behaviour: &Behaviour, share: f64, slice_s: f64) -> (f64, f64) {
        let rate_per_s = share * behaviour.throughput_per_s(Subject::CONNECTIONS);
        let mut rng = Seed(5).rng("slices");
        let (mut completed, mut all_s, mut slices) = (0, Vec::new(), Vec::new());
        for block in 0..100 {
            let mut model = Model::new(behaviour.clone(), Seed(6).derive("block", block));
            let factors: Vec<f64> = (0..Subject::CONNECTIONS).map(|_| model.accept()).collect();
            let mut now_s = 1.0;
            for _ in 0..10 {
                let length_s = slice_s * rng.random_range(1.0 - JITTER..1.0 + JITTER);
                let lead_s = length_s / 3.0;
                let (lead_end_s, end_s) = (now_s + lead_s, now_s + length_s);
                let slice = OpenSlice { start_s: now_s, lead_end_s, end_s };
                let mut seen = slice.run(&mut model, &factors, rate_per_s, &mut rng);
                completed += seen.completed;
                all_s.append(&mut seen.ended_s);
                slices.push((lead_s, length_s));
                now_s = seen.last_s + BETWEEN_S + slice_s;
            }
        }
        let latencies: Vec<(f64, u64)> =
            all_s.iter().map(|(_, latency_s)| (*latency_s, 1)).collect();
        let raw = completed as f64 / all_s.len() as f64;
        (raw, raw + stats::outstanding_share(&latencies, &slices))
    }

    #[test]
    fn a_rate_that_was_sustained_was_called_unsustained_where_requests_outlast_slices() {
        for (each, slow_s, slice_s) in [(39, 1.945, 0.5), (39, 1.945, 1.0), (12, 0.572, 0.25)] {
            let slow = SlowRequests {
                which: SlowSelection::Every(each),
                length_s: slow_s,
                computes: false,
            };
            let behaviour = Behaviour { slow: Some(slow), ..Behaviour::even(0.007) };
            let (raw, seen) = achieved(&behaviour, 0.5, slice_s);
            assert!(raw < 0.98, "{raw} in {slice_s} s of {behaviour:?}");
            assert!((seen - 1.0).abs() < 0.01, "{seen} in {slice_s} s of {behaviour:?}");
        }
        for share in [1.1, 1.5] {
            let (_, seen) = achieved(&Behaviour::even(0.007), share, 0.1);
            assert!(seen < 0.97, "{seen} at {share} times the capacity");
        }
    }

    #[test]
    fn servers_of_every_kind_are_as_fast_in_slices_as_in_the_long_run() {
        for kind in Kind::ALL {
            for seed in 50..54 {
                let subject = kind.draw(Seed(seed));
                let (off, error) = off(&subject.behaviour, 300);
                let name = kind.name();
                assert!(off.abs() < 0.03 + 1.5 * error, "{name}: {off} ± {error} {subject:?}");
            }
        }
    }

    /// What stalls took, where `share_of` is what a request takes that took so long beyond
    /// `stalled_s`. Requests that end within a quarter of that time of each other are of the same stall
    /// (`drive`'s stall_count.rs).
    fn stalls_of(slices: &Slices, stalled_s: f64, share_of: impl Fn(f64) -> f64) -> stats::Stalls {
        let mut shares: Vec<f64> = Vec::new();
        for slice in slices {
            let long: Vec<&(f64, f64)> =
                slice.iter().filter(|(_, took_s)| *took_s > stalled_s).collect();
            let apart = |pair: &&[&(f64, f64)]| pair[1].0 - pair[0].0 > stalled_s / 4.0;
            let stalls = usize::from(!long.is_empty()) + long.windows(2).filter(apart).count();
            let share: f64 = long.iter().map(|(_, took_s)| share_of(took_s - stalled_s)).sum();
            shares.extend((0..stalls).map(|_| share / stalls as f64));
        }
        stats::Stalls {
            sum: shares.iter().sum(),
            squares: shares.iter().map(|share| share * share).sum(),
            largest: shares.iter().copied().fold(0.0, f64::max),
        }
    }

    #[test]
    fn a_throughput_with_slow_requests_or_stops_is_within_its_interval() {
        for kind in [Kind::SlowRequests, Kind::NthSlow, Kind::Stops, Kind::Lock, Kind::Mixture] {
            let (of, runs, mut held) = (Subject::CONNECTIONS, 12, 0);
            for number in 0..25 {
                let behaviour = kind.draw(Seed(105).derive(kind.name(), number)).behaviour;
                let truth = behaviour.throughput_per_s(of);
                let load = ClosedLoad::settled(&behaviour, of, 1.5, 20, Seed(3));
                for run in 0..runs {
                    let blocks = load.run(&behaviour, 7, Seed(4).derive("run", run));
                    let total = |block: &Block| stats::Total {
                        amount: block.completed,
                        per: block.counted_s / f64::from(of),
                    };
                    let totals: Vec<stats::Total> = blocks.iter().map(total).collect();
                    let logs = stats::log_of_totals(&totals).unwrap();
                    let sureness = stats::Sureness { alpha: 0.05, interrupted: false };
                    let all_s = sum(&blocks, |block| block.counted_s);
                    let slices: Slices =
                        blocks.iter().flat_map(|block| block.ended_s.clone()).collect();
                    let stalled_s = (4.0 * load.mean_s).max(0.01);
                    let stalls = stalls_of(&slices, stalled_s, |beyond_s| beyond_s / all_s);
                    let level = stats::level_of(&logs, 7, sureness).at_least(stalls.margins(0.05));
                    let known_to = 0.005 * truth;
                    let holds = level.low <= truth + known_to && truth - known_to <= level.high;
                    held += u32::from(holds);
                }
            }
            let coverage = f64::from(held) / 300.0;
            assert!(coverage > 0.93, "{}: {coverage}", kind.name());
        }
    }

    /// The interval of p99 from blocks, as `conduct`'s stalls.rs and analyse.rs make it: without what
    /// rare stalls may add, and with it. `elsewhere_s` is the longest latency under other loads.
    fn p99_s(
        blocks: &[Slices],
        stalled_s: f64,
        elsewhere_s: f64,
        rate_per_s: f64,
    ) -> Option<[Estimate; 2]> {
        let values = |slices: &Slices| {
            let latencies_s = latencies_s(slices).into_iter();
            let mut values: stats::Values = latencies_s.map(|s| ((s * 1e9) as u64, 1)).collect();
            values.sort_unstable();
            values
        };
        let values: Vec<stats::Values> = blocks.iter().map(values).collect();
        let sureness = stats::Sureness { alpha: 0.05, interrupted: false };
        let without = stats::quantile(&values, 0.99, sureness)?.estimate;
        let all = latencies_s(&blocks.concat());
        let longest_s = all.iter().copied().fold(elsewhere_s, f64::max);
        let count = all.len() as f64;
        let mut stalls = stalls_of(&blocks.concat(), stalled_s, |_| 1.0 / count);
        if stalls.sum == 0.0 && longest_s > stalled_s {
            stalls.largest = (rate_per_s * longest_s / count).min(1.0);
        }
        let high = without.high.max(1e9 * stalls.quantile_at_most(0.99, longest_s, 0.05));
        Some([without, Estimate { high, ..without }])
    }

    #[test]
    fn the_p99_of_a_server_that_stops_was_too_low_in_a_quarter_of_the_comparisons() {
        for kind in [Kind::Stops, Kind::Lock] {
            let (mut intervals, mut too_low, mut too_high) = (0.0, [0.0; 2], 0.0);
            for number in 0..10 {
                let behaviour = kind.draw(Seed(103).derive(kind.name(), number)).behaviour;
                let of = Subject::CONNECTIONS;
                let capacity_per_s = behaviour.throughput_per_s(of);
                let rate_per_s = 0.5 * capacity_per_s;
                let [truth] = simulate::latency_s(&behaviour, of, rate_per_s, [0.99], Seed(1));
                let stalled_s = (4.0 * f64::from(of) / capacity_per_s).max(0.01);
                for run in 0..10 {
                    let seed = Seed(2).derive("run", run);
                    // As in a minute: 6 s of each variant, and twice as long its closed loop.
                    let blocks = open_blocks(&behaviour, of, rate_per_s, 0.8, 7, seed);
                    let closed = seed.derive("closed", 0);
                    let others = open_blocks(&behaviour, of, rate_per_s, 1.6, 7, closed);
                    let elsewhere_s = latencies_s(&others.concat()).into_iter().fold(0.0, f64::max);
                    let both = p99_s(&blocks, stalled_s, elsewhere_s, rate_per_s);
                    let Some(both) = both else { continue };
                    let known_to = 0.01 * truth.value + 0.000_5;
                    for (too_low, of) in too_low.iter_mut().zip(&both) {
                        *too_low += f64::from(u8::from(of.high < 1e9 * (truth.value - known_to)));
                    }
                    too_high += f64::from(u8::from(both[0].low > 1e9 * (truth.value + known_to)));
                    intervals += 1.0;
                }
            }
            let [without, with] = too_low.map(|number| number / intervals);
            let name = kind.name();
            assert!(intervals > 90.0, "{name}: {intervals}");
            assert!(without > 0.05, "{name}: {without}");
            assert!(with < 0.05 && too_high / intervals < 0.05, "{name}: {with}, {too_high}");
        }
    }
}
