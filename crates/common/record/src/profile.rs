//! Where the CPU time of a stack went, and what differs between two of them.

use std::collections::BTreeMap;

use base::Nanos;
use serde::{Deserialize, Serialize};
use stats::Estimate;

use crate::Offer;

/// The sampled CPU time of a stack in one trial, as a tree of calls.
///
/// Every sample belongs to exactly one call, the innermost, so the samples of all calls add up to all
/// samples, and samples × period is the CPU time of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// CPU time that a sample stands for.
    #[serde(rename = "period_ns")]
    pub period: Nanos,
    /// The functions that were seen.
    pub functions: Vec<Function>,
    /// Who called whom, each call after its caller.
    pub calls: Vec<Call>,
    /// Samples of interrupts on the stack's CPUs while no process ran there: not part of the stack's
    /// CPU time.
    pub interrupts: u64,
    /// Records that the kernel could not write.
    pub lost: u64,
    /// How often the stack's threads waited; `None` if some of them ended.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// System calls of the stack during its warm-up, if they could be counted.
    #[serde(default)]
    pub system_calls: Option<SystemCalls>,
}

/// How often threads waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Times that a thread gave up its CPU because it had nothing to do.
    pub voluntary: u64,
    /// Times that a CPU was taken from a thread.
    pub involuntary: u64,
    /// For how long threads could run and had no CPU.
    #[serde(rename = "run_delay_ns")]
    pub run_delay: Nanos,
}

impl Waits {
    /// What was added since an earlier moment; `None` if something became less, because a thread ended.
    pub fn since(&self, earlier: &Waits) -> Option<Waits> {
        Some(Waits {
            voluntary: self.voluntary.checked_sub(earlier.voluntary)?,
            involuntary: self.involuntary.checked_sub(earlier.involuntary)?,
            run_delay: Nanos(self.run_delay.0.checked_sub(earlier.run_delay.0)?),
        })
    }
}

/// System calls while so many requests were completed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCalls {
    /// The requests.
    pub requests: u64,
    /// The calls by name.
    pub calls: BTreeMap<String, u64>,
}

/// A function of a program or of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Function {
    /// Its name; `None` if the program does not tell.
    pub name: Option<String>,
    /// The program, library or source file that contains it, or `kernel`.
    pub module: String,
    /// Whether the module is the program itself, whose file may be called otherwise in another variant.
    pub is_program: bool,
}

/// A function called by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, Option<u32>, u64)", into = "(u32, Option<u32>, u64)")]
pub struct Call {
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// Index of the caller's call; `None` for the outermost function.
    pub caller: Option<u32>,
    /// Samples in the function itself, not in what it called.
    pub samples: u64,
}

impl From<(u32, Option<u32>, u64)> for Call {
    fn from((function, caller, samples): (u32, Option<u32>, u64)) -> Call {
        Call { function, caller, samples }
    }
}

impl From<Call> for (u32, Option<u32>, u64) {
    fn from(call: Call) -> (u32, Option<u32>, u64) {
        (call.function, call.caller, call.samples)
    }
}

impl Function {
    /// The module of the kernel's functions.
    pub const KERNEL: &str = "kernel";
    /// The module of the entries for whole processes, at the root of the calls. Their name is the
    /// program's.
    pub const PROCESS: &str = "process";

    /// The module of the entries for whole modules, whose functions are not told one by one. Their name
    /// is the module's.
    pub const MODULE: &str = "module";

    /// Whether it stands for all functions of a module.
    pub fn is_module(&self) -> bool {
        self.module == Function::MODULE
    }

    /// Whether it stands for a whole process.
    pub fn is_process(&self) -> bool {
        self.module == Function::PROCESS
    }

    /// Whether it is one of the kernel's.
    pub fn is_kernel(&self) -> bool {
        self.module == Function::KERNEL
    }

    /// Whether the kernel handles an interrupt in it, or the work that an interrupt left.
    pub fn is_interrupt(&self) -> bool {
        let name = self.name.as_deref().unwrap_or("");
        self.is_kernel()
            && ["handle_softirqs", "__do_softirq", "do_softirq", "irq_exit_rcu", "common_interrupt"]
                .iter()
                .any(|known| name.trim_start_matches('_') == known.trim_start_matches('_'))
    }
}

impl Profile {
    /// All samples of the stack.
    pub fn samples(&self) -> u64 {
        self.calls.iter().map(|call| call.samples).sum()
    }

    /// The CPU time that they stand for.
    pub fn cpu(&self) -> Nanos {
        self.period * self.samples()
    }

    /// The samples of each call and of all that it calls.
    pub fn with_callees(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.calls.iter().map(|call| call.samples).collect();
        for (place, call) in self.calls.iter().enumerate().rev() {
            if let Some(caller) = call.caller {
                sums[caller as usize] += sums[place];
            }
        }
        sums
    }
}

/// What makes the difference in CPU time per request between two variants, or what one of them needs
/// it for.
///
/// All times are nanoseconds of CPU time per request, means over the blocks. `own` is exactly the sum
/// of `functions` and `others`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Index of the baseline; without one, the variant is compared with nothing: its differences are
    /// its costs.
    pub baseline: Option<u32>,
    /// Index of the variant.
    pub variant: u32,
    /// The offer whose trials are compared.
    pub offer: Offer,
    /// The number of blocks; with one, the intervals are those of the number of samples (Poisson).
    pub blocks: u32,
    /// How many intervals share the error probability (Bonferroni).
    pub tested: u32,
    /// The sampled CPU time.
    pub own: CostDifference,
    /// The same as counted by the control group.
    pub counted: CostDifference,
    /// Interrupts on the stacks' CPUs while no process ran there.
    pub interrupts: CostDifference,
    /// The functions of programs, and the parts of the kernel, whose own time differs with certainty,
    /// and modules that do so as a whole, but none of their functions; those that differ most first.
    pub functions: Vec<FunctionDifference>,
    /// The functions of the kernel whose own time differs with certainty; they are contained in its parts.
    pub kernel_functions: Vec<FunctionDifference>,
    /// All other functions together, and what could not be named.
    pub others: CostDifference,
    /// How many functions these are.
    pub other_functions: u32,
    /// The part of `others` that could not be named.
    pub unnamed: CostDifference,
    /// The functions whose time together with what they call differs with certainty.
    pub with_callees: Vec<FunctionDifference>,
    /// Own time by what functions belong to.
    pub groups: Vec<GroupDifference>,
    /// The calls, each after its caller.
    pub calls: Vec<CallDifference>,
    /// How often threads waited; `None` if that is not known of all blocks.
    pub waits: Option<WaitDifference>,
    /// System calls that a request makes, those that take longest first.
    pub system_calls: Vec<SystemCallDifference>,
}

/// A number per request of two variants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountDifference {
    /// That of the baseline.
    pub baseline: f64,
    /// That of the variant.
    pub variant: f64,
    /// Variant − baseline, with its interval.
    pub difference: Estimate,
}

impl CountDifference {
    /// Whether the interval does not contain zero.
    pub fn is_certain(&self) -> bool {
        self.difference.low > 0.0 || self.difference.high < 0.0
    }
}

/// How often threads waited per request, in two variants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitDifference {
    /// Times that a thread gave up its CPU because it had nothing to do.
    pub voluntary: CountDifference,
    /// Times that a CPU was taken from a thread.
    pub involuntary: CountDifference,
    /// For how long threads could run and had no CPU.
    pub run_delay: CostDifference,
}

/// A system call in two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemCallDifference {
    /// Its name.
    pub name: String,
    /// Calls per request, if they could be counted.
    pub calls: Option<CountDifference>,
    /// CPU time in it.
    pub time: CostDifference,
}

/// CPU time per request of two variants, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostDifference {
    /// That of the baseline.
    pub baseline_ns: f64,
    /// That of the variant.
    pub variant_ns: f64,
    /// Variant − baseline, with its interval.
    pub difference_ns: Estimate,
}

impl CostDifference {
    /// Whether the interval does not contain zero.
    pub fn is_certain(&self) -> bool {
        self.difference_ns.low > 0.0 || self.difference_ns.high < 0.0
    }
}

/// A function in two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionDifference {
    /// The function.
    pub function: Function,
    /// Time in it, without what it calls.
    pub own: CostDifference,
    /// Time in it and in what it calls.
    pub with_callees: CostDifference,
}

/// Functions that belong together, in two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupDifference {
    /// What they belong to.
    pub name: String,
    /// Their own time.
    pub own: CostDifference,
}

/// A call in two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallDifference {
    /// The function.
    pub function: Function,
    /// Index of the caller's call; `None` for the outermost function.
    pub caller: Option<u32>,
    /// Time in it and in what it calls.
    pub with_callees: CostDifference,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_contains_what_it_calls() {
        let call = |function, caller, samples| Call { function, caller, samples };
        let profile = Profile {
            period: Nanos(10),
            calls: vec![
                call(0, None, 1),
                call(1, Some(0), 2),
                call(2, Some(1), 4),
                call(2, None, 8),
            ],
            ..Profile::default()
        };
        assert_eq!(profile.with_callees(), [7, 6, 4, 8]);
        assert_eq!(profile.cpu(), Nanos(150));
        let text = serde_json::to_string(&profile.calls[1]).unwrap();
        assert_eq!(text, "[1,0,2]");
        assert_eq!(serde_json::from_str::<Call>(&text).unwrap(), profile.calls[1]);
    }

    #[test]
    fn the_kernels_interrupts_are_known_by_name() {
        let of = |name: &str, module: &str| Function {
            name: Some(name.to_owned()),
            module: module.to_owned(),
            is_program: false,
        };
        assert!(of("__do_softirq", "kernel").is_interrupt());
        assert!(of("handle_softirqs", "kernel").is_interrupt());
        assert!(!of("handle_softirqs", "app").is_interrupt());
        assert!(!of("default_idle", "kernel").is_interrupt());
    }
}
