//! A machine without io_uring, simulated with a seccomp filter on one thread.

use std::io;

use super::*;

/// Runs `act` on a thread for which io_uring_setup(2) fails with `errno`.
#[allow(unsafe_code)]
fn without_io_uring<R: Send>(errno: Errno, act: impl FnOnce() -> R + Send) -> R {
    let bpf = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refuse = libc::SECCOMP_RET_ERRNO | errno.raw_os_error() as u32;
    let filter = [
        // The number of the system call is the first word of a filter's input (seccomp(2)).
        bpf(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        bpf(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        bpf(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        bpf(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let program =
                libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            // SAFETY: both calls change only what this thread may do from now on; the program
            // points to `len` filters, which outlive the call and are only read.
            let outcome = unsafe {
                let (on, off): (libc::c_ulong, libc::c_ulong) = (1, 0);
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, off, off, off), 0);
                let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
                libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program)
            };
            assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
            act()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_forbidden_io_uring_is_distinguished_from_a_missing_one() {
    let probe = |errno| without_io_uring(errno, || Uring::probe().unwrap_err());
    assert_eq!(probe(Errno::PERM), NoUring::Forbidden);
    assert_eq!(probe(Errno::NOSYS), NoUring::Missing);
    assert_eq!(probe(Errno::INVAL), NoUring::TooOld);
    assert_eq!(probe(Errno::NOMEM), NoUring::Memory);
    assert_eq!(probe(Errno::MFILE), NoUring::Other("Too many open files (os error 24)".to_owned()));
}

#[test]
fn every_reason_names_what_works_instead() {
    for (reason, text) in [
        (
            NoUring::Forbidden,
            "io_uring is forbidden, usually by a container's seccomp filter or by \
             kernel.io_uring_disabled; use --engine epoll",
        ),
        (NoUring::Missing, "this kernel has no io_uring; use --engine epoll"),
        (
            NoUring::TooOld,
            "this kernel's io_uring is too old: Linux 6.1 is required (deferred task work, \
             multishot receive); use --engine epoll",
        ),
        (
            NoUring::Memory,
            "not enough memory for io_uring: raise the limit of locked memory ('ulimit -l') or of \
             the cgroup, or use --engine epoll",
        ),
        (NoUring::Other("odd".to_owned()), "io_uring failed (odd); use --engine epoll"),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}

#[test]
fn every_slot_has_a_buffer_until_that_is_too_much_memory() {
    let shape = |address, message: usize, slots| {
        buffer_shape(&Setup::new(address, vec![0; message].into(), slots))
    };
    let tcp = || crate::Address::Tcp("127.0.0.1:1".parse().unwrap());
    assert_eq!(shape(tcp(), 100, 1), (16, 16 * 1024));
    assert_eq!(shape(tcp(), 100, 100), (128, 16 * 1024));
    assert_eq!(shape(tcp(), 100, 100_000), (1024, 16 * 1024));
    assert_eq!(shape(tcp(), 10_000_000, 1), (16, 16 * 1024));
    let datagram = crate::Address::Unix {
        address: rustix::net::SocketAddrUnix::new("/s").unwrap(),
        socket_type: rustix::net::SocketType::DGRAM,
    };
    // A message and one byte more, so that a longer one is detected.
    assert_eq!(shape(datagram, 100_000, 100), (128, 102_400));
}
