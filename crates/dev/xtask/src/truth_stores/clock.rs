//! The clock of other processes.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt as _;

use object::{Object as _, ObjectSymbol as _};

use super::processes;

/// Where the code lies that replaces the kernel's: at the end of its last page, which it does not fill.
const CODE: usize = 96;

/// Sets the clocks of all processes that this one has started, and of those that they fork, so many
/// seconds ahead of the machine's. Those that count from a start (`CLOCK_MONOTONIC`), the times of
/// files and the kernel's timers stay as they are.
///
/// The functions that read the clock are the kernel's, in a page of each process (vdso(7)). They
/// become jumps to system calls whose answers are moved. Chaos Mesh shifts clocks in the same way.
///
/// # Errors
/// On another architecture than `x86_64`, and without the right to write to these processes.
pub(super) fn set_ahead(ahead_s: i32) -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the clock of a process can only be set on x86_64".to_owned());
    }
    let suspended = processes::suspend()?;
    suspended.all.iter().try_for_each(|process| set_in(process.as_raw_nonzero().get(), ahead_s))
}

fn set_in(pid: i32, ahead_s: i32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the clock of process {pid}: {error}");
    let maps = read_to_string(format!("/proc/{pid}/maps")).map_err(failed)?;
    // A process that is about to end has none.
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return Ok(()) };
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
    let (from, to) = range
        .and_then(|(from, to)| Some((hexadecimal(from)?, hexadecimal(to)?)))
        .ok_or_else(|| format!("/proc/{pid}/maps: {line}"))?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
    let memory = memory.map_err(failed)?;
    let mut image = vec![0; (to - from) as usize];
    memory.read_exact_at(&mut image, from).map_err(failed)?;
    let (code, entries) = code(ahead_s);
    let place = image.len() - CODE;
    let is_free = image[place..].iter().all(|byte| *byte == 0);
    if !is_free && image[place..place + 8] != code[..8] {
        return Err("the kernel's functions fill their last page".to_owned());
    }
    memory.write_all_at(&code, from + place as u64).map_err(failed)?;
    let functions = object::File::parse(&*image).map_err(|error| error.to_string())?;
    for symbol in functions.dynamic_symbols() {
        let entry = entries.iter().find(|(name, _)| symbol.name() == Ok(name));
        if let Some((_, offset)) = entry {
            // From the end of the jump.
            let distance = (place + offset) as i32 - (symbol.address() as i32 + 5);
            let jump = [&[0xe9][..], &distance.to_le_bytes()].concat();
            memory.write_all_at(&jump, from + symbol.address()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Replaces three functions, each at this offset. All arguments and answers are as in their manual
/// pages (section 2).
fn code(ahead_s: i32) -> ([u8; CODE], [(&'static str, usize); 3]) {
    let ahead = ahead_s.to_le_bytes();
    let clock_gettime = [
        &[0xb8, 228, 0, 0, 0][..], // mov eax, SYS_clock_gettime
        &[0x0f, 0x05],             // syscall
        &[0x85, 0xc0],             // test eax, eax
        &[0x75, 16],               // jne return
        &[0x85, 0xff],             // test edi, edi: CLOCK_REALTIME
        &[0x74, 5],                // je add
        &[0x83, 0xff, 5],          // cmp edi, CLOCK_REALTIME_COARSE
        &[0x75, 7],                // jne return
        &[0x48, 0x81, 0x06],       // add: add qword [rsi], ahead
        &ahead,
        &[0xc3], // return: ret
    ];
    let gettimeofday = [
        &[0xb8, 96, 0, 0, 0][..], // mov eax, SYS_gettimeofday
        &[0x0f, 0x05],            // syscall
        &[0x85, 0xc0],            // test eax, eax
        &[0x75, 12],              // jne return
        &[0x48, 0x85, 0xff],      // test rdi, rdi
        &[0x74, 7],               // je return
        &[0x48, 0x81, 0x07],      // add qword [rdi], ahead
        &ahead,
        &[0xc3], // return: ret
    ];
    let time = [
        &[0x57][..],           // push rdi
        &[0x31, 0xff],         // xor edi, edi
        &[0xb8, 201, 0, 0, 0], // mov eax, SYS_time
        &[0x0f, 0x05],         // syscall
        &[0x48, 0x05],         // add rax, ahead
        &ahead,
        &[0x5f],             // pop rdi
        &[0x48, 0x85, 0xff], // test rdi, rdi
        &[0x74, 3],          // je return
        &[0x48, 0x89, 0x07], // mov [rdi], rax
        &[0xc3],             // return: ret
    ];
    let mut code = [0; CODE];
    let entries = [("__vdso_clock_gettime", 0), ("__vdso_gettimeofday", 32), ("__vdso_time", 64)];
    for ((_, offset), bytes) in
        entries.iter().zip([clock_gettime.concat(), gettimeofday.concat(), time.concat()])
    {
        code[*offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    (code, entries)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process::KilledOnDrop;

    #[test]
    fn a_clock_is_set_ahead_and_right_again() {
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        let program = "
            import ctypes, sys, time
            libc = ctypes.CDLL(None)
            for line in sys.stdin:
                pair = (ctypes.c_long * 2)()
                libc.gettimeofday(pair, None)
                print(int(time.time()), pair[0], libc.time(None), int(time.monotonic()), flush=True)
        ";
        let mut python = Command::new("python3");
        python.args(["-c", &format!("if True:{program}")]);
        let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut python = KilledOnDrop(child);
        let mut input = python.0.stdin.take().unwrap();
        let mut output = BufReader::new(python.0.stdout.take().unwrap());
        let mut read = || -> Vec<i64> {
            writeln!(input).unwrap();
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.split_whitespace().map(|number| number.parse().unwrap()).collect()
        };
        let mut before = read();
        for (ahead_s, since_s) in [(3_600, 3_600), (-500, -4_100), (0, 500)] {
            set_ahead(ahead_s).unwrap();
            let after = read();
            for (place, moved_s) in [since_s, since_s, since_s, 0].into_iter().enumerate() {
                // Time passes meanwhile.
                assert!(
                    (after[place] - before[place] - moved_s).abs() < 100,
                    "{before:?} {after:?}"
                );
            }
            before = after;
        }
    }
}
