//! A discrete-event simulation of a behaviour under the loads of `tachograph`.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use base::{Rng, Seed};
use rand::RngExt as _;

use crate::behaviour::Behaviour;
use crate::model::Model;

/// Answers that make a figure exact enough, over all starts.
pub const ANSWERS: u64 = 2_000_000;
/// Starts of the server, whose figures are averaged.
const STARTS: u64 = 40;
/// Share of a start's answers that are not counted: one in so many.
const WARM_UP: u64 = 5;

/// A request that a server works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    pub(crate) due_work_s: f64,
    pub(crate) connection: usize,
    /// When it was due to be sent, in real time; unused in a closed loop.
    pub(crate) since_s: f64,
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> Ordering {
        self.due_work_s.total_cmp(&other.due_work_s).then(self.connection.cmp(&other.connection))
    }
}

/// A value with the standard error of its simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedValue {
    /// The value.
    pub value: f64,
    /// Its standard error, over independent starts of the server.
    pub error: f64,
}

impl SimulatedValue {
    fn of(values: &[f64]) -> SimulatedValue {
        let n = values.len() as f64;
        let value = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        SimulatedValue { value, error: (squares / (n - 1.0) / n).sqrt() }
    }
}

/// Answers per second of a closed loop, from so many answers.
pub fn throughput_per_s(
    behaviour: &Behaviour,
    connections: u32,
    answers: u64,
    seed: Seed,
) -> SimulatedValue {
    let one = |start| {
        let seed = seed.derive("closed", start);
        closed(behaviour, connections as usize, answers / STARTS, seed)
    };
    SimulatedValue::of(&(0..STARTS).map(one).collect::<Vec<f64>>())
}

fn closed(behaviour: &Behaviour, connections: usize, answers: u64, seed: Seed) -> f64 {
    let mut model = Model::new(behaviour.clone(), seed);
    let factors: Vec<f64> = (0..connections).map(|_| model.accept()).collect();
    let mut under_way = BinaryHeap::new();
    for (connection, factor) in factors.iter().enumerate() {
        let due_work_s = model.receive(0.0, *factor).due_work_s;
        under_way.push(Reverse(UnderWay { due_work_s, connection, since_s: 0.0 }));
    }
    let warm_up = answers / WARM_UP;
    let (mut answered, mut begin_s, mut now_s) = (0, 0.0, 0.0);
    while answered < answers
        && let Some(Reverse(request)) = under_way.pop()
    {
        now_s = model.real_at(request.due_work_s);
        answered += 1;
        if answered == warm_up {
            begin_s = now_s;
        }
        model.answer(request.due_work_s);
        let service = model.receive(request.due_work_s, factors[request.connection]);
        under_way.push(Reverse(UnderWay { due_work_s: service.due_work_s, ..request }));
    }
    (answers - warm_up) as f64 / (now_s - begin_s)
}

/// Quantiles of the latency, in seconds, of an open loop with Poisson arrivals: from the moment at
/// which a request was due, including its wait for a free connection.
pub fn latency_s<const N: usize>(
    behaviour: &Behaviour,
    connections: u32,
    rate_per_s: f64,
    quantiles: [f64; N],
    seed: Seed,
) -> [SimulatedValue; N] {
    // Starts whose connections differ are of the same population, so their latencies are pooled
    // within a few groups of starts, and the groups tell the error.
    const GROUPS: usize = 8;
    let mut groups = vec![Vec::new(); GROUPS];
    for start in 0..STARTS {
        let latencies =
            open(behaviour, connections as usize, rate_per_s, seed.derive("open", start));
        groups[start as usize % GROUPS].extend(latencies);
    }
    for group in &mut groups {
        group.sort_unstable_by(f64::total_cmp);
    }
    quantiles.map(|quantile| {
        let rank = |group: &Vec<f64>| group[(quantile * (group.len() - 1) as f64) as usize];
        SimulatedValue::of(&groups.iter().map(rank).collect::<Vec<f64>>())
    })
}

fn open(behaviour: &Behaviour, connections: usize, rate_per_s: f64, seed: Seed) -> Vec<f64> {
    let mut model = Model::new(behaviour.clone(), seed);
    let mut arrivals = seed.rng("arrivals");
    let factors: Vec<f64> = (0..connections).map(|_| model.accept()).collect();
    let end_s = (ANSWERS / STARTS) as f64 / rate_per_s;
    let slice = OpenSlice { start_s: 0.0, lead_end_s: end_s / WARM_UP as f64, end_s };
    let seen = slice.run(&mut model, &factors, rate_per_s, &mut arrivals);
    seen.ended_s.into_iter().map(|(_, latency_s)| latency_s).collect()
}

/// A stretch of an open loop in real time.
pub(crate) struct OpenSlice {
    pub(crate) start_s: f64,
    pub(crate) lead_end_s: f64,
    pub(crate) end_s: f64,
}

/// What an open loop has measured.
pub(crate) struct OpenSeen {
    /// When the requests ended that were due in the window, and their latencies.
    pub(crate) ended_s: Vec<(f64, f64)>,
    /// Requests answered in the window.
    pub(crate) completed: u64,
    /// When the last one was answered.
    pub(crate) last_s: f64,
}

impl OpenSlice {
    /// Loads an idle server with Poisson arrivals.
    pub(crate) fn run(
        &self,
        model: &mut Model,
        factors: &[f64],
        rate_per_s: f64,
        arrivals: &mut Rng,
    ) -> OpenSeen {
        // As in the client: the connection that has been idle for longest is used first.
        let mut idle: VecDeque<usize> = (0..factors.len()).collect();
        let mut under_way: BinaryHeap<Reverse<UnderWay>> = BinaryHeap::new();
        let mut waiting: VecDeque<f64> = VecDeque::new();
        let mut seen = OpenSeen { ended_s: Vec::new(), completed: 0, last_s: self.end_s };
        let mut gap = move || -(1.0 - arrivals.random::<f64>()).ln() / rate_per_s;
        let mut arrival_s = self.start_s + gap();
        loop {
            let next = under_way.peek().map(|Reverse(request)| *request);
            let done_s = next.map_or(f64::INFINITY, |request| model.real_at(request.due_work_s));
            let is_over = arrival_s >= self.end_s;
            if let Some(request) = next.filter(|_| is_over || done_s <= arrival_s) {
                under_way.pop();
                seen.last_s = seen.last_s.max(done_s);
                let is_in_window = done_s >= self.lead_end_s && done_s < self.end_s;
                seen.completed += u64::from(is_in_window);
                if request.since_s >= self.lead_end_s {
                    seen.ended_s.push((done_s, done_s - request.since_s));
                }
                model.answer(request.due_work_s);
                match waiting.pop_front() {
                    None => idle.push_back(request.connection),
                    Some(since_s) => {
                        let factor = factors[request.connection];
                        let due_work_s = model.receive(request.due_work_s, factor).due_work_s;
                        under_way.push(Reverse(UnderWay { due_work_s, since_s, ..request }));
                    }
                }
                continue;
            }
            if is_over {
                return seen;
            }
            match idle.pop_front() {
                None => waiting.push_back(arrival_s),
                Some(connection) => {
                    let at_work_s = model.work_at(arrival_s);
                    let due_work_s = model.receive(at_work_s, factors[connection]).due_work_s;
                    under_way.push(Reverse(UnderWay {
                        due_work_s,
                        connection,
                        since_s: arrival_s,
                    }));
                }
            }
            arrival_s += gap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, StopTime};

    #[test]
    fn formula_and_simulation_agree_about_every_kind() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            let subject = kind.draw(Seed(40 + i as u64));
            for behaviour in [&subject.behaviour, &subject.worse] {
                let formula = behaviour.throughput_per_s(10);
                let simulated = throughput_per_s(behaviour, 10, 800_000, Seed(1));
                let off = (simulated.value - formula).abs();
                assert!(
                    off < 4.0 * simulated.error + 0.002 * formula,
                    "{}: {formula} {simulated:?} {behaviour:?}",
                    kind.name()
                );
            }
        }
    }

    #[test]
    fn latency_is_that_of_closed_forms() {
        // Stops of 0.3 s after 2.7 s each, and more connections than requests: a tenth of the
        // requests waits, uniformly for up to 0.3 s.
        let stops = Behaviour::with_stops(0.001, StopTime::Fixed(2.7), 0.3);
        let [p50, p99] = latency_s(&stops, 1_000, 100.0, [0.5, 0.99], Seed(1));
        assert!((p50.value - 0.001).abs() < 1e-6, "{p50:?}");
        assert!((p99.value - 0.271).abs() < 0.004, "{p99:?}");
        // M/D/1 at half of the capacity: the mean wait is half a service time; P(no wait) is a
        // half (Erlang, 1909).
        let one = Behaviour::even(0.001);
        let [median, some] = latency_s(&one, 1, 500.0, [0.49, 0.51], Seed(1));
        assert!((median.value - 0.001).abs() < 1e-5, "{median:?}");
        assert!(some.value > 0.001, "{some:?}");
    }
}
