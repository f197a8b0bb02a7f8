//! Queues whose latency is known by formula: M/M/1, M/D/c and a token bucket.
//!
//! Requests arrive at random (Poisson), wait in one queue, and are served by one or several workers in
//! the order in which they came.

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// One worker; service times are exponential with this mean in seconds.
    Exponential {
        /// Mean service time.
        service_s: f64,
    },
    /// Several workers; each service takes as long.
    Constant {
        /// The service time.
        service_s: f64,
        /// Workers.
        workers: u32,
    },
    /// A token bucket without a reserve: answers leave at once, but at least this long after each
    /// other.
    Bucket {
        /// Seconds between answers.
        gap_s: f64,
    },
}

impl Queue {
    /// Requests per second that it answers at most.
    pub fn most_per_s(&self) -> f64 {
        match *self {
            Queue::Exponential { service_s } => 1.0 / service_s,
            Queue::Constant { service_s, workers } => f64::from(workers) / service_s,
            Queue::Bucket { gap_s } => 1.0 / gap_s,
        }
    }

    /// The share of requests that take longer than `limit_s` at a rate, in the long run.
    pub fn slower_than(&self, limit_s: f64, rate_per_s: f64) -> f64 {
        if rate_per_s >= self.most_per_s() {
            return 1.0;
        }
        match *self {
            Queue::Exponential { service_s } => ((rate_per_s - 1.0 / service_s) * limit_s).exp(),
            Queue::Constant { service_s, workers } => {
                1.0 - waits_at_most(limit_s - service_s, service_s, workers, rate_per_s)
            }
            Queue::Bucket { gap_s } => 1.0 - waits_at_most(limit_s, gap_s, 1, rate_per_s),
        }
    }

    /// The highest rate at which at most `share` of the requests take longer than `limit_s`: zero if
    /// there is none.
    pub fn capacity_per_s(&self, limit_s: f64, share: f64) -> f64 {
        let most = self.most_per_s();
        let holds = |rate: f64| self.slower_than(limit_s, rate) <= share;
        if !holds(most * 1e-6) {
            return 0.0;
        }
        // Towards the highest rate step by step: the closer to it, the longer the formula takes.
        let (mut low, mut high) = (most * 1e-6, most / 2.0);
        while holds(high) {
            (low, high) = (high, (high + most) / 2.0);
        }
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            (low, high) = if holds(middle) { (middle, high) } else { (low, middle) };
        }
        low
    }
}

/// The share of requests that wait at most `wait_s` for one of `workers` workers whose services take
/// `service_s` each (M/D/c).
///
/// By G. J. Franx, A simple solution for the M/D/c waiting time distribution, Operations Research
/// Letters 29 (2001): for (k − 1)·D ≤ x < k·D,
///
/// ```text
/// P(W ≤ x) = Σ_{j < k·c} Q(k·c − 1 − j) · u^j ÷ j! · e^−u,   u = λ·(k·D − x)
/// ```
///
/// where Q(i) is the probability that at most i requests wait. All terms are positive, so nothing
/// cancels.
fn waits_at_most(wait_s: f64, service_s: f64, workers: u32, rate_per_s: f64) -> f64 {
    if wait_s < 0.0 {
        return 0.0;
    }
    if workers == 1 && wait_s > FAR * service_s {
        return 1.0 - waits_longer_far(wait_s, service_s, rate_per_s);
    }
    let k = (wait_s / service_s).floor() + 1.0;
    let terms = k as usize * workers as usize;
    let waiting = at_most_waiting(terms, service_s, workers as usize, rate_per_s);
    let u = rate_per_s * (k * service_s - wait_s);
    poisson(u, terms).iter().enumerate().map(|(j, p)| p * waiting[terms - 1 - j]).sum()
}

/// From this many service times on, the tail of one worker's queue is exponential to more digits than
/// are printed.
const FAR: f64 = 25.0;

/// The share of requests that wait longer, far out in the tail of M/D/1: C·e^(−γx), where γ solves
/// λ·(e^(γD) − 1) = γ and C = (1 − ρ) ÷ (λ·D·e^(γD) − 1) (Cramér and Lundberg; Asmussen, Applied
/// Probability and Queues, chapter XIII).
fn waits_longer_far(wait_s: f64, service_s: f64, rate_per_s: f64) -> f64 {
    let excess = |decay: f64| rate_per_s * (decay * service_s).exp_m1() - decay;
    let (mut low, mut high) = (1e-9 / service_s, 1.0 / service_s);
    while excess(high) < 0.0 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        (low, high) = if excess(middle) < 0.0 { (middle, high) } else { (low, middle) };
    }
    let load = rate_per_s * service_s;
    (1.0 - load) / (load * (low * service_s).exp() - 1.0) * (-low * wait_s).exp()
}

/// Probabilities of 0 to `terms` − 1 events of a Poisson distribution.
fn poisson(mean: f64, terms: usize) -> Vec<f64> {
    let mut log = -mean;
    (0..terms)
        .map(|j| {
            if j > 0 {
                log += (mean / j as f64).ln();
            }
            log.exp()
        })
        .collect()
}

/// The probabilities that at most 0 to `terms` − 1 requests wait.
///
/// Looked at once per service time, the number of requests in the system is a Markov chain: those in
/// service have left, and those that arrived meanwhile have come. It is followed until it no longer
/// changes.
fn at_most_waiting(terms: usize, service_s: f64, workers: usize, rate_per_s: f64) -> Vec<f64> {
    let mean = rate_per_s * service_s;
    let arrivals = poisson(mean, (mean + 12.0 * mean.sqrt() + 20.0) as usize);
    let load = mean / workers as f64;
    // The tail falls by about exp(−2·(1 − load)) per worker.
    let tail = 20.0 * workers as f64 / (1.0 - load).max(1e-3);
    let states = workers + terms + tail as usize;
    let mut now = vec![0.0; states];
    now[0] = 1.0;
    loop {
        let mut next = vec![0.0; states];
        for (count, p) in now.iter().enumerate().filter(|(_, p)| **p > 1e-18) {
            let left = count.saturating_sub(workers);
            for (more, q) in arrivals.iter().enumerate() {
                next[(left + more).min(states - 1)] += p * q;
            }
        }
        let change: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        now = next;
        if change < 1e-10 {
            break;
        }
    }
    let up_to = |waiting: usize| now[..=(workers + waiting).min(states - 1)].iter().sum();
    (0..terms).map(up_to).collect()
}

#[cfg(test)]
mod tests {
    use base::Seed;
    use rand::RngExt as _;

    use super::*;

    #[test]
    fn one_exponential_worker_by_hand() {
        let queue = Queue::Exponential { service_s: 0.001 };
        // P(T > t) = exp(−(μ − λ)·t): 1% beyond 50 ms at 1000 − ln(100) ÷ 0.05 = 907.9.
        assert!((queue.capacity_per_s(0.05, 0.01) - 907.897).abs() < 0.01);
        assert_eq!(queue.capacity_per_s(0.001, 0.01), 0.0, "slower than that without any queue");
    }

    #[test]
    fn the_first_service_time_of_one_constant_worker_is_known() {
        // P(W = 0) = 1 − ρ, and P(W ≤ x) = (1 − ρ)·e^(λx) for x < D (Erlang 1909).
        for (rate, x) in [(0.5, 0.0), (0.5, 0.7), (0.9, 0.3)] {
            let expected = (1.0 - rate) * f64::exp(rate * x);
            assert!((waits_at_most(x, 1.0, 1, rate) - expected).abs() < 1e-8, "{rate} {x}");
        }
    }

    /// The share of slow requests of a queue, by playing it.
    fn played(queue: Queue, limit_s: f64, rate: f64) -> f64 {
        let mut rng = Seed(1).rng("queue");
        let (service, workers, counted) = match queue {
            Queue::Constant { service_s, workers } => (service_s, workers, service_s),
            Queue::Bucket { gap_s } => (gap_s, 1, 0.0),
            Queue::Exponential { .. } => unreachable!(),
        };
        let mut free = vec![0.0_f64; workers as usize];
        let (mut now, mut slow) = (0.0, 0);
        const REQUESTS: u32 = 400_000;
        for _ in 0..REQUESTS {
            now -= (1.0 - rng.random::<f64>()).ln() / rate;
            let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begin = first.max(now);
            *first = begin + service;
            slow += u32::from(begin + counted - now > limit_s);
        }
        f64::from(slow) / f64::from(REQUESTS)
    }

    #[test]
    fn the_formula_agrees_with_the_queue_itself() {
        for (queue, limit, rate) in [
            (Queue::Constant { service_s: 1.0, workers: 1 }, 4.5, 0.7),
            (Queue::Constant { service_s: 1.0, workers: 3 }, 2.2, 2.4),
            (Queue::Constant { service_s: 1.0, workers: 8 }, 1.7, 7.0),
            (Queue::Bucket { gap_s: 1.0 }, 6.0, 0.8),
        ] {
            let (formula, played) = (queue.slower_than(limit, rate), played(queue, limit, rate));
            assert!((formula / played - 1.0).abs() < 0.12, "{queue:?}: {formula} {played}");
        }
    }

    #[test]
    fn far_out_the_tail_is_exponential() {
        for load in [0.9, 0.95, 0.98] {
            let near = 1.0 - waits_at_most(FAR - 1e-9, 1.0, 1, load);
            assert!((near / waits_longer_far(FAR, 1.0, load) - 1.0).abs() < 1e-5, "{load}: {near}");
        }
    }

    #[test]
    fn capacity_is_where_the_share_is_reached() {
        let queue = Queue::Constant { service_s: 0.01, workers: 4 };
        let capacity = queue.capacity_per_s(0.05, 0.01);
        assert!((queue.slower_than(0.05, capacity) - 0.01).abs() < 1e-5);
        assert!(capacity < queue.most_per_s());
    }
}
