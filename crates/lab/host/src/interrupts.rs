//! Whether the kernel charges interrupts to the process that they interrupt.
//!
//! What loopback TCP does in soft interrupts is a quarter of the CPU time of an exchange. A kernel
//! built with CONFIG_IRQ_TIME_ACCOUNTING charges it to no process, but /proc/schedstat and /proc/stat
//! contain it in the CPUs' busy time. It would seem to be the work of other processes, and only with
//! variants that use TCP.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use base::{Nanos, monotonic_now};
use rustix::time::{ClockId, clock_gettime};

/// Exchanges per burst: about a millisecond.
const EXCHANGES: usize = 50;

/// Bursts of each transport, in turn, so that a disturbance affects both.
const BURSTS: usize = 24;

/// If TCP's charged share of the time is below this part of a Unix socket's, the interrupts are not
/// charged. Soft interrupts are a quarter of TCP's time and nothing of a Unix socket's.
const CHARGED_MIN: f64 = 0.88;

/// Compares the CPU time that this thread is charged for TCP with the time that passes, and the same
/// for a Unix socket, where there are no interrupts. Takes about 50 ms.
///
/// # Errors
/// If the sockets cannot be used.
pub(crate) fn are_charged() -> io::Result<bool> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (unix_near, unix_far) = UnixStream::pair()?;
    let (mut tcp, mut unix) = (Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        tcp.push(charged_share(|| exchange(&near, &far))?);
        unix.push(charged_share(|| exchange(&unix_near, &unix_far))?);
    }
    Ok(is_charged(tcp, unix))
}

/// Whether these shares of bursts over TCP and over a Unix socket show that interrupts are charged.
/// Other processes make some bursts longer, so the upper quartiles are compared.
fn is_charged(tcp: Vec<f64>, unix: Vec<f64>) -> bool {
    let upper = |mut shares: Vec<f64>| {
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() * 3 / 4).copied().unwrap_or(1.0)
    };
    upper(tcp) >= CHARGED_MIN * upper(unix)
}

/// The CPU time charged to this thread during a burst ÷ the time that passed.
fn charged_share(mut exchange: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let (began, cpu) = (monotonic_now(), thread_cpu());
    for _ in 0..EXCHANGES {
        exchange()?;
    }
    let charged = thread_cpu().saturating_sub(cpu);
    let passed = monotonic_now().saturating_sub(began);
    Ok(charged.0 as f64 / passed.0.max(1) as f64)
}

/// Sends a byte there and back.
fn exchange<S>(near: &S, far: &S) -> io::Result<()>
where
    for<'a> &'a S: io::Read + io::Write,
{
    let (mut near, mut far, mut byte) = (near, far, [0]);
    near.write_all(&byte)?;
    far.read_exact(&mut byte)?;
    far.write_all(&byte)?;
    near.read_exact(&mut byte)
}

/// CPU time of this thread.
fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_that_only_tcp_loses_is_the_interrupts() {
        let disturbed = |share: f64| -> Vec<f64> {
            (0..24).map(|i| if i % 3 == 0 { share / 2.0 } else { share }).collect()
        };
        assert!(is_charged(disturbed(1.0), disturbed(1.0)));
        assert!(!is_charged(disturbed(0.75), disturbed(1.0)));
        assert!(is_charged(disturbed(0.75), disturbed(0.75)), "a neighbour takes from both");
    }

    #[test]
    fn the_test_agrees_with_the_kernels_configuration() {
        let answer = are_charged().unwrap();
        let config = std::process::Command::new("zcat").arg("/proc/config.gz").output();
        let config = config.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        let config = config.unwrap_or_default();
        if config.contains("# CONFIG_IRQ_TIME_ACCOUNTING is not set") {
            assert!(answer, "this kernel charges interrupts");
        }
    }
}
