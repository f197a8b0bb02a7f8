//! The stack of one sample, before its addresses have names.

/// The marks with which the kernel begins parts of a call chain (perf_event_open(2),
/// `enum perf_callchain_context`) are the last values below 2⁶⁴.
const MARKS: u64 = u64::MAX - 4095;
/// What follows was executed in the kernel.
const KERNEL: u64 = (-128_i64) as u64;

/// A stack, each part from the innermost function outwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Chain {
    /// Addresses in the kernel.
    pub(crate) kernel: Vec<u64>,
    /// Addresses in the program.
    pub(crate) user: Vec<u64>,
}

/// The kernel's part of a call chain as the kernel gives it.
pub(crate) fn kernel_part(callchain: &[u64]) -> Vec<u64> {
    let mut is_kernel = false;
    let mut part = Vec::new();
    for &address in callchain {
        match address {
            mark if mark >= MARKS => is_kernel = mark == KERNEL,
            address if is_kernel => part.push(address),
            _ => {}
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_part_lies_between_its_mark_and_the_next() {
        let user = (-512_i64) as u64;
        assert_eq!(kernel_part(&[KERNEL, 0xf000, 0xf001, user, 0x4000]), [0xf000, 0xf001]);
        assert_eq!(kernel_part(&[user, 1]), []);
        assert_eq!(kernel_part(&[]), []);
    }
}
