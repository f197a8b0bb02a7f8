//! How the CPU time of a stack is counted: the choice.

use serde::{Deserialize, Serialize};

/// How to count CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accounting {
    /// By control group if the machine permits one, version 2 before version 1, else by process
    /// tree.
    #[default]
    Automatic,
    /// By control group, version 2, if possible.
    CgroupV2,
    /// By control group, version 1, if possible.
    CgroupV1,
    /// By process tree.
    ProcessTree,
}
