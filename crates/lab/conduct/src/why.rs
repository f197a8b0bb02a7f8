//! What makes the difference in CPU time between two variants: by function, with intervals.
//!
//! As for every other metric, the block is the unit: a function has one number per variant and block,
//! its sampled CPU time per request, and the interval is that of the paired differences over the
//! blocks. Many functions are tested at once, so each interval has its share of the error probability
//! (Bonferroni): in a comparison of equal variants, at most one run in 20 names any function. Which
//! functions are tested depends on their share in both variants together, which says nothing about how
//! they differ.
//!
//! Everything is linear in the samples, so the difference is exactly the sum of its rows. A variant that
//! is compared with no other is compared with nothing: what differs are its costs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{
    Block, CallDifference, CostDifference, CountDifference, Fact, Finding, Function,
    FunctionDifference, GroupDifference, Metric, Offer, Part, Profile, ProfileGap, Severity,
    SystemCallDifference, Trial, WaitDifference, Waits, Why,
};
use stats::{Estimate, Sureness};

use crate::analyse::{offer_of, per_request, trial_of};
use crate::kernel_parts;

/// Functions with a smaller share of the CPU time of both variants are not tested on their own.
const TESTED_SHARE: f64 = 0.002;

/// Calls with a smaller share are added to their callers.
const CALL_SHARE: f64 = 0.001;

/// System calls that fewer requests make are not told, unless they take time.
const CALLS_MIN: f64 = 0.01;

/// The intervals about waiting, which share the error probability among themselves.
const WAITS: u32 = 3;

/// Degrees of freedom with which Student's distribution is the normal one.
const LARGE_SAMPLE: usize = 1_000_000;

/// How far sampled and counted CPU time may differ: this share, and as many standard errors of the
/// number of samples. Samples at regular intervals vary less than a Poisson number.
const DIFFERS_SHARE: f64 = 0.02;
const DIFFERS_ERRORS: f64 = 4.0;

/// How long a thread is woken before it runs, at most. The kernel charges it from the first of the two
/// moments, because it does not read its clock again in between (`rq_clock_skip_update` in
/// `wakeup_preempt`, Linux 6.18); samples belong to it from the second one. Seen: 2.9 µs per switch from
/// an idle CPU of a virtual machine, 1 µs from another thread.
const WAKING_MAX: base::Nanos = base::Nanos::from_micros(5);

/// Samples of a CPU time whose sampled and counted amounts are compared.
const COMPARED_SAMPLES_MIN: u64 = 1000;

/// The findings about variants whose samples do not add up to the CPU time of their control groups.
pub(crate) fn profile_differs(part: &Part) -> Vec<Finding> {
    let of_variant = |variant: usize, offer: Offer| -> Option<Finding> {
        let (mut samples, mut sampled, mut counted, mut switches) = (0, 0, 0, 0);
        let (mut stolen, mut elapsed) = (0.0, 0.0);
        let trials = part.complete_blocks().filter_map(|block| trial_of(block, variant, offer));
        for trial in trials {
            let profile = trial.profile.as_ref()?;
            samples += profile.samples();
            sampled += profile.cpu().0;
            counted += trial.stack_cpu?.0;
            switches += profile.waits.map_or(0, |waits| waits.voluntary + waits.involuntary);
            for slice in &trial.slices {
                stolen += slice.stolen.unwrap_or(0.0) * slice.window.0 as f64;
                elapsed += slice.window.0 as f64;
            }
        }
        let error = DIFFERS_ERRORS / (samples as f64).sqrt();
        let differs = sampled.abs_diff(counted) as f64 > counted as f64 * (DIFFERS_SHARE + error);
        (samples >= COMPARED_SAMPLES_MIN && differs).then(|| {
            let (sampled, counted) = (base::Nanos(sampled), base::Nanos(counted));
            let cause = gap_of(sampled, counted, switches, stolen / elapsed);
            let severity = if cause.is_some() { Severity::Note } else { Severity::Warning };
            let fact = Fact::ProfileDiffers { offer, sampled, counted, cause };
            Finding::of_variant(severity, variant, fact)
        })
    };
    let variants = 0..part.variants.len();
    let both = |v| [Offer::Closed, Offer::Open].into_iter().filter_map(move |o| of_variant(v, o));
    variants.flat_map(both).collect()
}

/// Why sampled and counted CPU time differ, if threads that were woken so often, or this share of the
/// CPU time that was stolen, explain it.
fn gap_of(
    sampled: base::Nanos,
    counted: base::Nanos,
    switches: u64,
    stolen: f64,
) -> Option<ProfileGap> {
    let missing = counted.0 as f64 - sampled.0 as f64;
    if missing > 0.0 {
        return (missing <= switches as f64 * WAKING_MAX.0 as f64).then_some(ProfileGap::Waking);
    }
    // As if all of it had been taken while the stack ran.
    let most = counted.0 as f64 * stolen / (1.0 - stolen);
    (-missing <= most).then_some(ProfileGap::Steal)
}

/// The finding about a part that was to be sampled and has nothing to tell.
pub(crate) fn nothing_sampled(part: &Part) -> Option<Finding> {
    let is_known = |finding: &Finding| matches!(finding.fact, Fact::NotProfiled { .. });
    let is_missing = part.profiled && part.why.is_empty();
    let few_blocks = part.complete_blocks().count() < 2;
    (is_missing && !part.findings.iter().any(is_known)).then_some(Finding {
        severity: Severity::Note,
        block: None,
        variant: None,
        fact: Fact::NothingSampled { few_blocks },
    })
}

/// What makes the differences of a part's contrasts, as far as they were sampled.
pub(crate) fn why(plan: &spec::Part, part: &Part, sureness: Sureness) -> Vec<Why> {
    let offer = offer_of(plan, Metric::Cpu);
    let of_contrast = |contrast: &spec::Contrast| {
        let pairs: Vec<Pair<'_>> = part
            .complete_blocks()
            .filter_map(|block| {
                let of = |variant| SampledTrial::of(trial_of(block, variant, offer)?);
                Some([Some(of(contrast.baseline)?), Some(of(contrast.variant)?)])
            })
            .collect();
        let compared = [Some(contrast.baseline as u32), Some(contrast.variant as u32)];
        (pairs.len() >= 2).then(|| Comparison::of(&pairs, sureness).why(compared, offer))
    };
    match part.variants.len() {
        1 => costs(part.complete_blocks(), offer, sureness).into_iter().collect(),
        _ => plan.contrasts.iter().filter_map(of_contrast).collect(),
    }
}

/// What the only variant of a part needs its CPU time for, as far as it was sampled.
pub(crate) fn costs<'a>(
    blocks: impl Iterator<Item = &'a Block>,
    offer: Offer,
    sureness: Sureness,
) -> Option<Why> {
    let of_block = |block| SampledTrial::of(trial_of(block, 0, offer)?);
    let pairs: Vec<Pair<'_>> =
        blocks.filter_map(|block| Some([None, Some(of_block(block)?)])).collect();
    (!pairs.is_empty()).then(|| Comparison::of(&pairs, sureness).why([None, Some(0)], offer))
}

/// A trial with samples.
struct SampledTrial<'a> {
    profile: &'a Profile,
    requests: f64,
    /// By the control group, in nanoseconds per request.
    counted_ns: f64,
}

impl<'a> SampledTrial<'a> {
    fn of(trial: &'a Trial) -> Option<SampledTrial<'a>> {
        // Without any sample, its processes are not those that were watched.
        let profile = trial.profile.as_ref().filter(|profile| profile.samples() > 0)?;
        let total = per_request(trial.stack_cpu, trial).filter(|total| total.per > 0.0)?;
        Some(SampledTrial { profile, requests: total.per, counted_ns: total.amount / total.per })
    }

    /// Nanoseconds per request that so many samples stand for.
    fn ns(&self, samples: u64) -> f64 {
        samples as f64 * self.profile.period.0 as f64 / self.requests
    }
}

/// The trials of baseline and variant in a block; without one, there is nothing to compare with.
type Pair<'a> = [Option<SampledTrial<'a>>; 2];

/// Nanoseconds per request of baseline and variant, by block.
type Costs = Vec<[f64; 2]>;

/// The costs of everything that is compared.
struct Comparison {
    sureness: Sureness,
    blocks: usize,
    functions: Vec<Function>,
    /// By function.
    own: Vec<Costs>,
    with_callees: Vec<Costs>,
    /// The calls of all trials together: function, caller and cost with callees.
    calls: Vec<(usize, Option<usize>, Costs)>,
    sampled: Costs,
    counted: Costs,
    interrupts: Costs,
    /// By system call: calls per request, if they are known of all trials.
    system_calls: BTreeMap<String, Costs>,
    /// Voluntary and involuntary waits and nanoseconds without a CPU, if they are known of all trials.
    waits: Option<[Costs; 3]>,
    /// What a sample of the variant stands for in its last block.
    sample_ns: f64,
}

impl Comparison {
    fn of(pairs: &[Pair<'_>], sureness: Sureness) -> Comparison {
        let names = ProgramNames::of(pairs);
        let blocks = pairs.len();
        let none = || vec![[0.0; 2]; blocks];
        let mut all = Comparison {
            sureness,
            blocks,
            functions: Vec::new(),
            own: Vec::new(),
            with_callees: Vec::new(),
            calls: Vec::new(),
            sampled: none(),
            counted: none(),
            interrupts: none(),
            system_calls: system_calls(pairs),
            waits: waits(pairs),
            sample_ns: 0.0,
        };
        let mut numbers: HashMap<Function, usize> = HashMap::new();
        let mut places: HashMap<(usize, Option<usize>), usize> = HashMap::new();
        for (block, pair) in pairs.iter().enumerate() {
            for (side, trial) in sides(pair) {
                let profile = trial.profile;
                all.sample_ns = trial.ns(1);
                all.sampled[block][side] = trial.ns(profile.samples());
                all.counted[block][side] = trial.counted_ns;
                all.interrupts[block][side] = trial.ns(profile.interrupts);
                let functions: Vec<usize> = profile
                    .functions
                    .iter()
                    .map(|function| {
                        let function = names.common(function);
                        let next = all.functions.len();
                        *numbers.entry(function.clone()).or_insert_with(|| {
                            all.functions.push(function);
                            all.own.push(none());
                            all.with_callees.push(none());
                            next
                        })
                    })
                    .collect();
                let sums = profile.with_callees();
                let mut in_common: Vec<usize> = Vec::with_capacity(sums.len());
                for (call, sum) in profile.calls.iter().zip(&sums) {
                    let function = functions[call.function as usize];
                    let caller = call.caller.map(|caller| in_common[caller as usize]);
                    let next = all.calls.len();
                    let place = *places.entry((function, caller)).or_insert_with(|| {
                        all.calls.push((function, caller, none()));
                        next
                    });
                    in_common.push(place);
                    let cost = trial.ns(*sum);
                    all.calls[place].2[block][side] += cost;
                    all.own[function][block][side] += trial.ns(call.samples);
                    if !all.calls_itself(place) {
                        all.with_callees[function][block][side] += cost;
                    }
                }
            }
        }
        all
    }

    /// Whether the function of a call is also one of its callers, whose cost contains this one's.
    fn calls_itself(&self, place: usize) -> bool {
        let (function, caller, _) = &self.calls[place];
        std::iter::successors(*caller, |caller| self.calls[*caller].1)
            .any(|caller| self.calls[caller].0 == *function)
    }

    fn difference(&self, costs: &Costs, tested: u32) -> CostDifference {
        let of_blocks = self.counted_difference(costs, tested);
        match (self.blocks, of_blocks.difference_ns.value) {
            (1, cost) => CostDifference {
                difference_ns: self.by_samples(cost, self.alpha(tested)),
                ..of_blocks
            },
            _ => of_blocks,
        }
    }

    fn alpha(&self, tested: u32) -> f64 {
        self.sureness.alpha / f64::from(tested.max(1))
    }

    /// The difference of what was counted and not sampled.
    fn counted_difference(&self, costs: &Costs, tested: u32) -> CostDifference {
        let mean =
            |side: usize| costs.iter().map(|cost| cost[side]).sum::<f64>() / self.blocks as f64;
        let differences: Vec<f64> = costs.iter().map(|[one, other]| other - one).collect();
        let sureness = Sureness { alpha: self.alpha(tested), ..self.sureness };
        let estimate = stats::mean_difference(&differences, sureness);
        CostDifference {
            baseline_ns: mean(0),
            variant_ns: mean(1),
            // The difference of the means, so that rows add up to the last digit.
            difference_ns: Estimate { value: mean(1) - mean(0), ..estimate },
        }
    }

    /// The interval of a cost of a single block, whose samples are as random as those of a Poisson
    /// process; samples at regular intervals vary less.
    fn by_samples(&self, cost: f64, alpha: f64) -> Estimate {
        let samples = (cost / self.sample_ns).max(0.0);
        let half = stats::t_quantile(alpha, LARGE_SAMPLE) * samples.sqrt() * self.sample_ns;
        Estimate { value: cost, low: cost - half, high: cost + half }
    }

    /// The mean of both variants' shares of their CPU time.
    fn share(&self, costs: &Costs) -> f64 {
        total(costs) / total(&self.sampled).max(f64::MIN_POSITIVE)
    }

    fn why(&self, [baseline, variant]: [Option<u32>; 2], offer: Offer) -> Why {
        let tests = |costs: &Costs| self.share(costs) >= TESTED_SHARE;
        let tested_own: Vec<usize> =
            (0..self.functions.len()).filter(|f| tests(&self.own[*f])).collect();
        // A function that calls nothing is tested once.
        let calls_something = |f: &usize| self.with_callees[*f] != self.own[*f];
        let tested_whole: Vec<usize> = (0..self.functions.len())
            .filter(|f| tests(&self.with_callees[*f]))
            .filter(calls_something)
            .collect();
        let groups = self.groups();
        let tested = (tested_own.len() + tested_whole.len() + groups.len()) as u32;
        let row = |function: usize| FunctionDifference {
            function: self.functions[function].clone(),
            own: self.difference(&self.own[function], tested),
            with_callees: self.difference(&self.with_callees[function], tested),
        };
        let is_named = |function: &usize| self.functions[*function].name.is_some();
        let certain = |functions: &[usize]| -> Vec<(usize, FunctionDifference)> {
            let named = functions.iter().copied().filter(is_named);
            let rows = named.map(|function| (function, row(function)));
            rows.filter(|(_, row)| row.own.is_certain()).collect()
        };
        // The kernel spreads its work over hundreds of small functions, so its rows are its parts.
        let (in_kernel, in_programs): (Vec<usize>, Vec<usize>) =
            tested_own.into_iter().partition(|function| self.functions[*function].is_kernel());
        let of_programs = certain(&in_programs);
        // So are modules that have no row.
        let has_row = |name: &String| {
            of_programs.iter().any(|(function, _)| group_of(&self.functions[*function]) == *name)
        };
        let parts: Vec<(&String, CostDifference)> = groups
            .iter()
            .filter(|(name, _)| !has_row(name))
            .map(|(name, costs)| (name, self.difference(costs, tested)))
            .filter(|(_, own)| own.is_certain())
            .collect();
        let told: BTreeSet<usize> = of_programs
            .iter()
            .map(|(function, _)| *function)
            .chain((0..self.functions.len()).filter(|f| {
                let group = group_of(&self.functions[*f]);
                parts.iter().any(|(name, _)| **name == group)
            }))
            .collect();
        let of_parts = parts.iter().map(|(name, own)| {
            let (name, module) = match name.strip_prefix(KERNEL_PART) {
                Some(part) => (part, Function::KERNEL),
                None => (name.as_str(), Function::MODULE),
            };
            let function = Function {
                name: Some(name.to_owned()),
                module: module.to_owned(),
                is_program: false,
            };
            FunctionDifference { function, own: *own, with_callees: *own }
        });
        let mut functions: Vec<FunctionDifference> =
            of_programs.into_iter().map(|(_, row)| row).chain(of_parts).collect();
        functions.sort_by(|a, b| largest_first(&a.own, &b.own));
        let mut kernel_functions: Vec<FunctionDifference> =
            certain(&in_kernel).into_iter().map(|(_, row)| row).collect();
        kernel_functions.sort_by(|a, b| largest_first(&a.own, &b.own));
        let rest = |wanted: &dyn Fn(usize) -> bool| -> Costs {
            let mut sum = vec![[0.0; 2]; self.blocks];
            for function in (0..self.functions.len()).filter(|function| wanted(*function)) {
                add(&mut sum, &self.own[function]);
            }
            sum
        };
        let others = |function: usize| !told.contains(&function);
        let other_functions = (0..self.functions.len()).filter(|f| others(*f) && is_named(f));
        let has_own = |f: &usize| total(&self.own[*f]) > 0.0;
        let mut with_callees: Vec<FunctionDifference> = tested_whole
            .into_iter()
            .filter(is_named)
            .map(row)
            .filter(|row| row.with_callees.is_certain())
            .collect();
        with_callees.sort_by(|a, b| largest_first(&a.with_callees, &b.with_callees));
        let group = |(name, costs): (&String, &Costs)| GroupDifference {
            name: name.clone(),
            own: self.difference(costs, tested),
        };
        Why {
            baseline,
            variant: variant.unwrap_or_default(),
            offer,
            blocks: self.blocks as u32,
            tested,
            own: self.difference(&self.sampled, 1),
            counted: self.counted_difference(&self.counted, 1),
            interrupts: self.difference(&self.interrupts, 1),
            functions,
            kernel_functions,
            others: self.difference(&rest(&others), 1),
            other_functions: other_functions.filter(has_own).count() as u32,
            unnamed: self.difference(&rest(&|f| others(f) && !is_named(&f)), 1),
            with_callees,
            groups: groups.iter().map(group).collect(),
            calls: self.call_differences(),
            waits: self.wait_difference(),
            system_calls: self.system_call_differences(),
        }
    }

    fn count_difference(&self, counts: &Costs, tested: u32) -> CountDifference {
        let CostDifference { baseline_ns, variant_ns, difference_ns } =
            self.counted_difference(counts, tested);
        CountDifference { baseline: baseline_ns, variant: variant_ns, difference: difference_ns }
    }

    fn wait_difference(&self) -> Option<WaitDifference> {
        let [voluntary, involuntary, run_delay] = self.waits.as_ref()?;
        Some(WaitDifference {
            voluntary: self.count_difference(voluntary, WAITS),
            involuntary: self.count_difference(involuntary, WAITS),
            run_delay: self.counted_difference(run_delay, WAITS),
        })
    }

    /// The system calls that were counted or sampled. Their intervals share the error probability among
    /// themselves.
    fn system_call_differences(&self) -> Vec<SystemCallDifference> {
        let mut times: BTreeMap<String, &Costs> = BTreeMap::new();
        for (function, costs) in self.functions.iter().zip(&self.with_callees) {
            times.extend(system_call(function).map(|name| (name.to_owned(), costs)));
        }
        let none = vec![[0.0; 2]; self.blocks];
        let names: BTreeSet<&String> = times.keys().chain(self.system_calls.keys()).collect();
        let is_seen = |name: &&String| {
            let calls = self.system_calls.get(*name).map_or(0.0, total) / (2 * self.blocks) as f64;
            let has_time = |time: &&Costs| self.share(time) >= TESTED_SHARE;
            calls >= CALLS_MIN || times.get(*name).is_some_and(has_time)
        };
        let seen: Vec<&String> = names.into_iter().filter(is_seen).collect();
        let tested = 2 * seen.len() as u32;
        let calls = |name: &String| match self.system_calls.is_empty() {
            true => None,
            false => {
                let counts = self.system_calls.get(name).unwrap_or(&none);
                Some(self.count_difference(counts, tested))
            }
        };
        let mut all: Vec<SystemCallDifference> = seen
            .into_iter()
            .map(|name| SystemCallDifference {
                name: name.clone(),
                calls: calls(name),
                time: self.difference(times.get(name).copied().unwrap_or(&none), tested),
            })
            .collect();
        let longest = |of: &SystemCallDifference| of.time.baseline_ns.max(of.time.variant_ns);
        all.sort_by(|a, b| longest(b).total_cmp(&longest(a)));
        all
    }

    /// Own time by what functions belong to: the kernel's parts, programs, source files.
    fn groups(&self) -> BTreeMap<String, Costs> {
        let mut groups: BTreeMap<String, Costs> = BTreeMap::new();
        for (function, costs) in self.functions.iter().zip(&self.own) {
            if function.is_process() {
                continue;
            }
            let name = group_of(function);
            add(groups.entry(name).or_insert_with(|| vec![[0.0; 2]; self.blocks]), costs);
        }
        groups.retain(|_, costs| total(costs) > 0.0);
        groups
    }

    /// The calls with a share that can be seen. Their intervals share the error probability among
    /// themselves.
    fn call_differences(&self) -> Vec<CallDifference> {
        let is_seen = |place: &usize| self.share(&self.calls[*place].2) >= CALL_SHARE;
        // A caller has at least the share of what it calls.
        let seen: Vec<usize> = (0..self.calls.len()).filter(is_seen).collect();
        let places: HashMap<usize, u32> =
            seen.iter().zip(0..).map(|(place, new)| (*place, new)).collect();
        let tested = seen.len() as u32;
        seen.iter()
            .map(|place| {
                let (function, caller, costs) = &self.calls[*place];
                CallDifference {
                    function: self.functions[*function].clone(),
                    caller: caller.map(|caller| places[&caller]),
                    with_callees: self.difference(costs, tested),
                }
            })
            .collect()
    }
}

/// How the names of the kernel's parts begin.
const KERNEL_PART: &str = "kernel: ";

/// What a function belongs to.
fn group_of(function: &Function) -> String {
    match (&function.name, function.is_kernel()) {
        (Some(name), true) => format!("{KERNEL_PART}{}", kernel_parts::part_of(name)),
        _ => function.module.clone(),
    }
}

/// The system call that a function of the kernel carries out.
fn system_call(function: &Function) -> Option<&str> {
    let name = function.name.as_deref().filter(|_| function.is_kernel())?;
    ["__x64_sys_", "__arm64_sys_"].iter().find_map(|beginning| name.strip_prefix(beginning))
}

/// Calls per request by name; empty if they are not known of all trials.
fn system_calls(pairs: &[Pair<'_>]) -> BTreeMap<String, Costs> {
    let mut all: BTreeMap<String, Costs> = BTreeMap::new();
    for (block, pair) in pairs.iter().enumerate() {
        for (side, trial) in sides(pair) {
            let Some(of_trial) = &trial.profile.system_calls else { return BTreeMap::new() };
            for (name, count) in &of_trial.calls {
                let costs = all.entry(name.clone()).or_insert_with(|| vec![[0.0; 2]; pairs.len()]);
                costs[block][side] = *count as f64 / of_trial.requests as f64;
            }
        }
    }
    all
}

/// What threads waited per request; `None` if that is not known of all trials.
fn waits(pairs: &[Pair<'_>]) -> Option<[Costs; 3]> {
    let mut all = [0; 3].map(|_| vec![[0.0; 2]; pairs.len()]);
    for (block, pair) in pairs.iter().enumerate() {
        for (side, trial) in sides(pair) {
            let Waits { voluntary, involuntary, run_delay } = trial.profile.waits?;
            for (costs, sum) in all.iter_mut().zip([voluntary, involuntary, run_delay.0]) {
                costs[block][side] = sum as f64 / trial.requests;
            }
        }
    }
    Some(all)
}

/// The trials of a pair that there are, with their sides.
fn sides<'p, 'a>(pair: &'p Pair<'a>) -> impl Iterator<Item = (usize, &'p SampledTrial<'a>)> {
    pair.iter().enumerate().filter_map(|(side, trial)| Some((side, trial.as_ref()?)))
}

fn largest_first(a: &CostDifference, b: &CostDifference) -> std::cmp::Ordering {
    b.difference_ns.value.abs().total_cmp(&a.difference_ns.value.abs())
}

fn total(costs: &Costs) -> f64 {
    costs.iter().flatten().sum()
}

fn add(sum: &mut Costs, costs: &Costs) {
    for (sum, cost) in sum.iter_mut().zip(costs) {
        sum[0] += cost[0];
        sum[1] += cost[1];
    }
}

/// The names of programs that only one of two variants runs.
///
/// Two builds of one server are usually two files with different names, whose functions are to be
/// compared. So if each variant runs exactly one program that the other does not, they are the same one.
struct ProgramNames {
    only: Option<[String; 2]>,
}

impl ProgramNames {
    fn of(pairs: &[Pair<'_>]) -> ProgramNames {
        let programs = |side: usize| -> BTreeSet<&String> {
            let trials = pairs.iter().filter_map(|pair| pair[side].as_ref());
            let functions = trials.flat_map(|trial| &trial.profile.functions);
            functions
                .filter(|function| function.is_process())
                .filter_map(|f| f.name.as_ref())
                .collect()
        };
        let [one, other] = [programs(0), programs(1)];
        let only = |a: &BTreeSet<&String>, b: &BTreeSet<&String>| -> Option<String> {
            let mut only = a.difference(b);
            let first = only.next()?;
            only.next().is_none().then(|| (*first).clone())
        };
        let both = only(&one, &other).zip(only(&other, &one));
        ProgramNames { only: both.map(|(one, other)| [one, other]) }
    }

    /// A function as it is called in both variants.
    fn common(&self, function: &Function) -> Function {
        let mut function = function.clone();
        let Some(only) = self.only.as_ref().filter(|_| function.is_program) else {
            return function;
        };
        let both = || only.join(" / ");
        if function.is_process() {
            if function.name.as_ref().is_some_and(|name| only.contains(name)) {
                function.name = Some(both());
            }
        } else if only.contains(&function.module) {
            function.module = both();
        }
        function
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
